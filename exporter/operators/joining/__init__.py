"""Operators of the family `joining`: how they are lowered, and what is recorded for them."""
