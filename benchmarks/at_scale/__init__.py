"""Runs of a million cells, and what the commands that read them take."""
