"""Indices that are read through and written through alike, each as it stands between the brackets of `x[...]`."""

from __future__ import annotations

from numpy import s_

#: Of one axis or more, by numbers and slices. For a tensor of at least (4, 5, 6).
BASIC_INDICES = [s_[0], s_[-1], s_[1, 2], s_[-1, :, -2], s_[1:3], s_[-3:], s_[:-1], s_[::2], s_[3:1]]
