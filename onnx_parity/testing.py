"""`onnx_parity.exporter.testing` by its public name: the same module."""

import sys

from onnx_parity.exporter import testing
from onnx_parity.exporter.testing import *  # noqa: F403

sys.modules[__name__] = testing
