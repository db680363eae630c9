"""Cases of single ONNX operators, for `parity pack`: a file for each family."""
