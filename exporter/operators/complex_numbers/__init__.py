"""Complex numbers, and their real and imaginary parts."""
