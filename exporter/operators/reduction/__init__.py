"""Operators of the family `reduction`: how they are lowered, and what is recorded for them."""
