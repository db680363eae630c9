"""Operators of the family `embedding`: how they are lowered, and what is recorded for them."""
