"""What a cell came to: the reference, the outcome, whose fault it is, and what to take home of it."""
