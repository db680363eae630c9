"""Operators of the family `attention`: how they are lowered, and what is recorded for them."""
