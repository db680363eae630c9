"""The gate: a run against a baseline, and whether it may pass. docs/gate.md says what counts as what."""
