"""TorchScript: compiled functions and modules, run step by step so that their branches and loops are kept."""
