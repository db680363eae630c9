"""HTML and Markdown reports of a run. They read its records, and import nothing that runs cells."""

import onnx_parity  # noqa: F401  (in a clone, it gives this folder its long name)
