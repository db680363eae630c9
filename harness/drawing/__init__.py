"""Draws cases for a report: the recorded program, the exported graph at each opset, and the errors of its values."""
