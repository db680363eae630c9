"""What operators do to the real and the imaginary parts of complex tensors."""
