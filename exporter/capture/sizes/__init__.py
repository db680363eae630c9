"""Dynamic sizes: symbols, and the result sizes of operators over them."""
