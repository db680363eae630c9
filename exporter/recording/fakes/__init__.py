"""Fake tensors, and a cache of what operators return for them."""
