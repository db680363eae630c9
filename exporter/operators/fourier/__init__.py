"""Operators of the family `fourier`: how they are lowered, and what is recorded for them."""
