"""Operators of the family `gradients`, which autograd calls to differentiate others: what is recorded for them."""
