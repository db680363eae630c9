"""What the loops of decompositions are made of, for real and for complex matrices."""
