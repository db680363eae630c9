"""Nested tensors: how they are made, converted, and taken apart."""
