"""Measurements of runs on a cluster: simulated large ones, and broken small ones."""
