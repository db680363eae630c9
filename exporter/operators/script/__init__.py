"""What the interpreter of TorchScript does for operators that are given numbers or rows that depend on values."""
