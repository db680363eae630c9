"""Operators of the family `distances`: how they are lowered, and what is recorded for them."""
