"""Families of operator cases. Declarations only: each file is its own test file."""
