"""Operators of the family `loss`: how they are lowered, and what is recorded for them."""
