"""Exporters and runtimes under test, and the models that pass between them."""
