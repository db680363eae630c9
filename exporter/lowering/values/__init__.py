"""The values that lowerings compute with, their attributes and shapes, and subgraphs and functions."""
