"""Operators of the family `lists`: how they are lowered, and what is recorded for them."""
