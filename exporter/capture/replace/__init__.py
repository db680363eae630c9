"""Replacements of torch's operators: what is recorded instead of an operator, and why."""
