"""Nested tensors: objects that stand for them while a program is recorded."""
