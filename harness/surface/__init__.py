"""The pages generated from the code: docs/surface.md, which compares with `torch.onnx`, and docs/api.md."""
