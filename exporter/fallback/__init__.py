"""Operators that torch itself executes, in a graph of ONNX: how they are written, read back and run."""
