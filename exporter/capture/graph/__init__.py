"""The ATen graph: nodes, values, blocks, and where in the user's program each node comes from."""
