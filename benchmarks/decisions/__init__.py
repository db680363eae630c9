"""Whether models are right where they claim to be: at every size, with every seed, and with mistakes planted."""
