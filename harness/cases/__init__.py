"""From a declaration to a program that runs: finding declarations, drawing cases, weights, seeds."""
