"""The ATen graph: nodes, values, blocks, and the origin of each node in the user's program."""
