"""Operators of the family `statistics`: how they are lowered, and what is recorded for them."""
