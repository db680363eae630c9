"""The recorder, and the values, blocks, lists, results and state of the program that it records."""
