"""Dynamic sizes while a program is recorded: their symbols, what torch asks of them, and Python's functions of them."""
