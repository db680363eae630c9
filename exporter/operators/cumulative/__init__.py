"""Operators of the family `cumulative`: how they are lowered, and what is recorded for them."""
