"""Outcomes that are known by content: what is hashed of a cell, the store of outcomes, and when one is used again."""
