"""Users' lowerings: symbolic functions, local functions, and operators that a program calls by name; their checks."""
