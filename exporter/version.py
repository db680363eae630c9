"""The name and version of this package that exported files carry. A test checks that pyproject.toml has the same."""

__all__ = ["PRODUCER", "VERSION"]

PRODUCER = "onnx-parity"
VERSION = "0.1.0"
