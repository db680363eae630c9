"""Operators of the family `arithmetic`: how they are lowered, and what is recorded for them."""
