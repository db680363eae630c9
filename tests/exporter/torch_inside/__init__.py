"""Witnesses: each change to torch has a test that fails once torch no longer needs it."""
