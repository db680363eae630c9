"""`onnx_parity.exporter.ops` by its public name: the same module."""

import sys

from onnx_parity.exporter import ops
from onnx_parity.exporter.ops import *  # noqa: F403

sys.modules[__name__] = ops
