"""Fake tensors, and the results of operators for them."""
