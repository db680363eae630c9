"""Operators of the family `elementwise`: how they are lowered, and what is recorded for them."""
