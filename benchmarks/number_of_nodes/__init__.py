"""The cost of an export by the number of a program's operators, inputs, outputs, weights and modules."""
