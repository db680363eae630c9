"""Users' lowerings: symbolic functions, local functions, operators that a program calls by name; and their checks."""
