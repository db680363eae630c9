"""Patches of torch and of libraries beside it, which are applied while programs are recorded and undone afterwards."""
