"""How well the conformance pack and its runners notice faults of a runtime: `python -m benchmarks.conformance`."""
