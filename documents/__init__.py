"""Writes the pages of docs/ that are generated, and the documentation as a site: `python -m documents --help`."""
