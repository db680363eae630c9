"""`onnx_parity.exporter.errors` by its public name: the same module."""

import sys

from onnx_parity.exporter import errors
from onnx_parity.exporter.errors import *  # noqa: F403

sys.modules[__name__] = errors
