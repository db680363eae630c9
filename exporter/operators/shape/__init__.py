"""Operators of the family `shape`: how they are lowered, and what is recorded for them."""
