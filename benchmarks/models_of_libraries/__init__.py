"""How models of libraries are exported, beside torch.onnx: see `__main__.py`."""
