"""Operators in an ONNX model that torch executes: how they are encoded as nodes, decoded and run."""
