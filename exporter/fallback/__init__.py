"""Operators in an ONNX model that torch executes: how they are encoded as nodes, decoded and run.

In onnx.reference they are an `OpRun`; in onnxruntime they are Python operators of onnxruntime-extensions.
"""
