"""Tests of rewrites, which state ONNX text before and after."""
