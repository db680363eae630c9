"""Operators of the family `resize`: how they are lowered, and what is recorded for them."""
