"""The cells of the matrix: ids, selection, shards, and which cells a change can affect."""
