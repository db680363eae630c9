"""Operators of the family `quantization`: how they are lowered, and what is recorded for them."""
