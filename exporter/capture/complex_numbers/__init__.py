"""Complex numbers, which ONNX's operators do not take: every complex tensor is two real ones in the graph."""
