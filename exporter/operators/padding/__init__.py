"""Operators of the family `padding`: how they are lowered, and what is recorded for them."""
