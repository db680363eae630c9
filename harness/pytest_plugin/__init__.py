"""The pytest plug-in: collection, the run of a process's cells, reports, progress."""
