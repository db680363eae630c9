"""Running a cell: its stages, the process that they run in, what is left of one that dies."""
