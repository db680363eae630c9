"""Judging a cell: the reference, the outcome, whether exporter or runtime is to blame, and failure bundles."""
