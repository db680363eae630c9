"""The registry of what is known of operators: a list of rules, and the decorators that make them."""
