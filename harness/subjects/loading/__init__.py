"""How each runtime runs a model, without this project: the harness calls it, and `repro.py` of a bundle contains it.

A file imports the standard library, numpy, onnx if it must, and the runtime itself within its functions. `load` takes a
model and returns a function from its inputs, in the model's order, to its outputs.
"""
