"""Replacements for operators of torch: which operator is recorded instead, and the reason."""
