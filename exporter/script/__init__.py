"""An interpreter of TorchScript that keeps branches and loops that depend on data."""
