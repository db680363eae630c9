"""The name and version of this package that exported files carry. A test checks that pyproject.toml has the same."""

from onnx_parity import __version__ as VERSION

__all__ = ["PRODUCER", "VERSION"]

PRODUCER = "onnx-parity"
