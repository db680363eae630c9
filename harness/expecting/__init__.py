"""Known failures: expectations, and the smallest edit of the expectations that describes a run."""
