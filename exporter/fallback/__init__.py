"""Operators in an ONNX model that torch executes: how they are encoded as nodes, decoded and run.

For onnx.reference such an operator is an `OpRun`; for onnxruntime it is a Python operator of onnxruntime-extensions.
"""
