"""The caller's request: arguments, names, dynamic axes and shapes, marked inputs, and the opset."""
