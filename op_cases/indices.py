"""Indices for reading and for writing, each written as it is between the brackets of `x[...]`."""

from __future__ import annotations

from numpy import s_

#: Numbers and slices of one axis or more, for a tensor of shape (4, 5, 6).
BASIC_INDICES = [s_[0], s_[-1], s_[1, 2], s_[-1, :, -2], s_[1:3], s_[-3:], s_[:-1], s_[::2], s_[3:1]]
