"""What users wait for: commands that run no cells, and the first cell."""
