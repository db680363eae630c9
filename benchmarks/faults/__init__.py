"""Faults that are injected into the harness, and attacks on runs, commands and files."""
