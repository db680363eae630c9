"""Compares exporters on torch's OpInfo samples: which are right, silently wrong, refuse, or crash."""
