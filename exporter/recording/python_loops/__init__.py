"""Loops of Python over dynamic sizes, which become loops of the model."""
