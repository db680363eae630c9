"""`onnx_parity.exporter.operators` by its public name: the same module."""

import sys

from onnx_parity.exporter import operators
from onnx_parity.exporter.operators import *  # noqa: F403

sys.modules[__name__] = operators
