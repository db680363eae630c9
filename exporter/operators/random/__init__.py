"""Operators of the family `random`: how they are lowered, and what is recorded for them."""
