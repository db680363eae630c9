"""What products, decompositions and eigenvalues of complex matrices are computed by."""
