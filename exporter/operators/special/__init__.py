"""Operators of the family `special`: how they are lowered, and what is recorded for them."""
