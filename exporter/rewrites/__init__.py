"""Rewrites of ONNX models: patterns of nodes for which others are better, in `tables/`, and steps over whole models.

`order.py` lists all of them in the order in which an export and `ONNXProgram.optimize` apply them.
"""
