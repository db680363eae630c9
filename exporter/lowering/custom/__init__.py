"""Lowerings from outside of this package: users' symbolic functions, local functions, operators called by name."""
