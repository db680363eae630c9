"""What ONNX operators take at an opset: signatures, the kernels of onnxruntime, and the dtypes to compute in."""
