"""Programs to the ATen graph. Knows torch; knows nothing of ONNX."""
