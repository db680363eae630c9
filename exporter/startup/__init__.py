"""What makes a process's first export fast: imports that are put off, garbage collection that waits."""
