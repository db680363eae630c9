"""Evaluates runs: merging, queries, comparisons, summaries; and the environment of a run."""
