"""`onnx_parity.exporter.verification` by its public name: the same module."""

import sys

from onnx_parity.exporter import verification
from onnx_parity.exporter.verification import *  # noqa: F403

sys.modules[__name__] = verification
