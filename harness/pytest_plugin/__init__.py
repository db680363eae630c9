"""The pytest plug-in: collects declarations as cells, runs them, and reports their outcomes and the progress."""
