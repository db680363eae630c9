"""Families of operator cases. Declarations only: each file is its own test file."""

import onnx_parity  # noqa: F401  (in a clone, it gives this folder its long name)
