"""The recorder, and its parts: values, branches and loops, lists, results, and the state of the program."""
