"""Running a cell: its stages, the process that they run in, and what is reported of a process that dies."""
