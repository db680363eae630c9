"""`onnx_parity.exporter.symbolic_helper` by its public name: the same module."""

import sys

from onnx_parity.exporter import symbolic_helper
from onnx_parity.exporter.symbolic_helper import *  # noqa: F403

sys.modules[__name__] = symbolic_helper
