"""What is made of runs: merging, queries, comparisons, summaries; and the environment of a run."""
