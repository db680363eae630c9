"""Changes to libraries other than torch while a program is recorded."""
