"""Captures a PyTorch program as an ATen graph. Depends on torch, and not on ONNX."""
