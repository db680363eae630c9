"""The version that exported files name as their producer's. The same as pyproject.toml's, by test."""

__all__ = ["PRODUCER", "VERSION"]

PRODUCER = "onnx-parity"
VERSION = "0.1.0"
