"""The commands of `parity`, one file each; `harness.cli` puts them together."""
