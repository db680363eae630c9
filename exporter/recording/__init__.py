"""The recorder: from the operators that a program calls to the nodes of the ATen graph."""
