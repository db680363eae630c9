"""Lowers ATen to ONNX: one function for each operator, by family. Differences between opsets are in `opsets`."""
