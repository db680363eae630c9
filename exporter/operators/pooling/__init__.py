"""Operators of the family `pooling`: how they are lowered, and what is recorded for them."""
