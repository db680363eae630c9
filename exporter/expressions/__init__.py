"""Expressions over symbols: dynamic sizes, and numbers that the program reads from tensors."""
