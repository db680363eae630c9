"""Fake tensors: torch's own, and what operators return for them."""
