"""What an ONNX operator takes at an opset: its signature, the runtime's kernels, the dtype to compute in."""
