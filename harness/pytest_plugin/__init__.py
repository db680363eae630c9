"""The pytest plug-in: collects declarations as cells, runs them, reports their outcomes and the progress."""
