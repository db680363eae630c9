"""Nested tensors, which ONNX does not have: their rows are one tensor of the graph, or one tensor each."""
