"""How long exports of programs of one to five operators take, beside torch.onnx: see `__main__.py`."""
