"""Operators of the family `comparison`: how they are lowered, and what is recorded for them."""
