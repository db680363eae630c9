"""The rules by which operators are added to a program, one file for each kind of operator."""
