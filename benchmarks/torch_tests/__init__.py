"""PyTorch's own tests of its exporter under onnxruntime, run against this project's exporter and torch.onnx's.

`source.py` finds the tests, `stand_ins.py` imports them with today's torch, `judge.py` exports a program of a test and
compares, `worker.py` is the process that does so, and `__main__.py` is the command.
"""
