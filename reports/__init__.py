"""HTML reports of a run. Knows `harness.record` and `harness.store`, and nothing else of the harness."""
