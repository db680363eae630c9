"""Passes over ONNX models. There are few, and each has a measured effect."""
