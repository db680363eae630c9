"""What is recorded instead of torch's own operator."""
