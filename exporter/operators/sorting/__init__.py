"""Operators of the family `sorting`: how they are lowered, and what is recorded for them."""
