"""Transpositions and reshapes that become fewer."""
