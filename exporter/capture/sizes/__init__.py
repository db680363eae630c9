"""Dynamic sizes: the symbols of a recording, and the calls of Python and torch that would turn them into numbers."""
