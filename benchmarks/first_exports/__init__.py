"""What the first export of a process takes, and what stands beside it."""
