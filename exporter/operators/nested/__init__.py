"""What operators do to nested tensors."""
