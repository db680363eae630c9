"""Kinds of values that ONNX does not have, and what stands for them."""
