"""What `verify=True` costs."""
