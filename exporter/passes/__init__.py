"""Passes over ONNX models. There are few, and each has a measured effect.

A test checks that exports with and without folding give the same results.
"""
