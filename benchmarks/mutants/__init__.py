"""Plants faults in the exporter, one at a time, and counts which of them the matrix notices."""
