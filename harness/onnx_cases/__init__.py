"""From the declaration of an ONNX operator to its cases: types, inputs, the model, and the expected outputs."""
