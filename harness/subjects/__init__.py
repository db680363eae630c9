"""The subjects of the matrix: exporters, runtimes, and the models that pass between them."""
