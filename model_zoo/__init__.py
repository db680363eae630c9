"""The zoo: whole models. Declarations only: each file is its own test file."""
