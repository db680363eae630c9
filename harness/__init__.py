"""The harness: cases x axes make cells; a cell runs its stages; its outcome goes into the run store."""

import onnx_parity  # noqa: F401  (in a clone, it gives this folder its long name)
