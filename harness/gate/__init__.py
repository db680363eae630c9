"""The gate: compares a run with a baseline and decides whether it is a regression. docs/gate.md explains the rules."""
