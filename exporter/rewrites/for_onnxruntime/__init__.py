"""Rewrites for `target="onnxruntime"` alone, to operators that only onnxruntime has, and to what it runs faster."""
