"""The commands of `parity`, one file each; `onnx_parity.harness.cli` puts them together."""
