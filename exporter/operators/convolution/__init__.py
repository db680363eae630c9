"""Operators of the family `convolution`: how they are lowered, and what is recorded for them."""
