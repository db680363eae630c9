"""Dynamic sizes: the symbols of a recording, and replacements for calls that would convert symbols to numbers."""
