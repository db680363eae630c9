"""Operators of the family `activation`: how they are lowered, and what is recorded for them."""
