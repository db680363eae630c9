"""The parts of torch and of Python that are not public."""
