"""The recorder, and what it knows of the program's values, blocks, lists, results and state."""
