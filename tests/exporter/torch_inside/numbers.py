"""Programs that compute with sizes in Python, by the function of Python, numpy or torch that does."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import torch

__all__ = ["OF_CLASSES", "OF_CONDITIONS", "OF_LISTS", "OF_NUMPY", "OF_SIZES"]

#: The functions of one number that `math` and numpy have.
OF_NUMPY = ("sqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tanh")
#: What Python computes with a condition on a size, by the method that does.
OF_CONDITIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "__xor__": lambda x: x + ((x.shape[0] > 3) ^ True),
    "__rxor__": lambda x: x + (True ^ (x.shape[0] > 3)),
    "__and__": lambda x: x + ((x.shape[0] > 0) & 3),
    "__rand__": lambda x: x + (3 & (x.shape[0] > 0)),
    "__or__": lambda x: x + ((x.shape[0] > 0) | 2),
    "__ror__": lambda x: x + (2 | (x.shape[0] > 0)),
    "__index__": lambda x: x + [1, 2][x.shape[0] > 0],
    "__invert__": lambda x: x + ~(x.shape[0] > 0),
    "__neg__": lambda x: x + -(x.shape[0] > 0),
    "__lt__": lambda x: x + ((x.shape[0] > 0) < 2),
    "__le__": lambda x: x + ((x.shape[0] > 0) <= 2),
    "__gt__": lambda x: x + ((x.shape[0] > 0) > 2),
    "__ge__": lambda x: x + ((x.shape[0] > 0) >= 2),
}
#: Functions of sizes.
OF_SIZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{
        f"math.{name}": lambda x, name=name: x + getattr(math, name)(x.shape[0] / 4)  # type: ignore[misc]
        for name in (*OF_NUMPY, "fabs")
    },
    "math.log1p": lambda x: x + math.log1p(x.shape[0]),
    "math.pow": lambda x: x + math.pow(x.shape[0], 0.5),
    "operator.index": lambda x: x * operator.index(x.shape[0]),
    "math.gcd": lambda x: x * math.gcd(x.shape[0], 6),
    "math.isqrt": lambda x: x * math.isqrt(x.shape[0]),
}
#: What asks for the class of a number, or whether two are one, by what answers.
OF_CLASSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "torch.SymInt.__getattribute__": lambda x: x + isinstance(x.shape[0], int),
    "torch.SymFloat.__getattribute__": lambda x: x + isinstance(x.shape[0] / 2, float),
    "torch.SymBool.__getattribute__": lambda x: x + isinstance(x.shape[0] > 2, bool),
    "operator.is_": lambda x: x + operator.is_(x.shape[0], len(x)),
    "operator.is_not": lambda x: x + operator.is_not(x.shape[0], len(x)),
}
#: Functions of several numbers that numpy decides by comparing them.
OF_LISTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max": lambda x: x * np.max([x.shape[0], 2]),
    "min": lambda x: x * np.min([x.shape[0], 2]),
    "clip": lambda x: x * np.clip(x.shape[0], 2, 3),
}
