"""HTML reports of a run. Of the harness they know `record` and `store`, and nothing else."""

import onnx_parity  # noqa: F401  (in a clone, it gives this folder its long name)
