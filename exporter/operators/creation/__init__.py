"""Operators of the family `creation`: how they are lowered, and what is recorded for them."""
