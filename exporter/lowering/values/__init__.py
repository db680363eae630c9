"""The values that lowerings work with, and the subgraphs and functions that they are written into."""
