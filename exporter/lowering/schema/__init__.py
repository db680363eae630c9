"""The schemas of ONNX operators: signatures, the kernels of onnxruntime, and the dtypes in which to compute."""
