"""ATen to ONNX: one function per operator, by family; where opsets differ, `opsets`."""
