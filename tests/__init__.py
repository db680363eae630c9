"""Tests that are not cells of the matrix."""
