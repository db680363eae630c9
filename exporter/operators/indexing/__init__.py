"""Operators of the family `indexing`: how they are lowered, and what is recorded for them."""
