"""Makes a process's first export fast: defers slow imports, and pauses garbage collection."""
