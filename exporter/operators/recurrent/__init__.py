"""Operators of the family `recurrent`: how they are lowered, and what is recorded for them."""
