"""Operators of the family `control_flow`: how they are lowered, and what is recorded for them."""
