"""The harness: cases times axes make cells. A cell runs its stages, and its outcome is written to the run store."""

import onnx_parity  # noqa: F401  (in a clone, it gives this folder its long name)
