"""Patches of libraries beside torch."""
