"""Operators of the family `normalization`: how they are lowered, and what is recorded for them."""
