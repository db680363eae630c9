"""Compatibility with scripts that were written for `torch.onnx`: its old arguments, modes and export types."""
