"""Pages written from the code: docs/surface.md, what `torch.onnx` offers and this; docs/api.md, the reference."""
