"""ONNX to ONNX: few passes, each earning its place by a measured effect."""
