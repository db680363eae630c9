"""The ATen graph: nodes, values, blocks of branches and loops, and where each node comes from."""
