"""Where a model goes wrong: the first operator that diverges, and the smallest program that still does."""
