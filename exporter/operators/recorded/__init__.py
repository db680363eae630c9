"""What is recorded instead of operators, and why."""
