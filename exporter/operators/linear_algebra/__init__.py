"""Operators of the family `linear_algebra`: how they are lowered, and what is recorded for them."""
