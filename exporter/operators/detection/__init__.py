"""Operators of the family `detection`: how they are lowered, and what is recorded for them."""
