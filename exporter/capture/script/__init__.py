"""TorchScript: an interpreter of compiled functions and modules that keeps branches and loops."""
