"""What torch.export's dimensions and hints say of an axis: which kind of hint it is, and the declared limits."""

from __future__ import annotations

import math
from typing import Any

from torch.export.dynamic_shapes import Dim

__all__ = ["kind_of_hint", "limits_of"]


def kind_of_hint(dimension: Any) -> str | None:
    """`AUTO`, `DYNAMIC` or `STATIC` for a hint of torch's, which may be a copy and have limits; None for any other."""
    if not isinstance(dimension, type(Dim.AUTO)):
        return None
    return str(getattr(dimension, "type", dimension).name)  # In earlier versions, a hint is a member of an enum.


def limits_of(dimension: Any) -> tuple[Any, Any] | None:
    """The least and the greatest size that a dimension declares; None if it declares none."""
    low, high = getattr(dimension, "min", None), getattr(dimension, "max", None)
    return None if low is None and high is None else (low or 0, math.inf if high is None else high)
