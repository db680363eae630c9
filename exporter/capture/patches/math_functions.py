"""Functions of Python's `math`, which take plain numbers: `math.sqrt(x.shape[1])` is computed from the dynamic size.

Python's own functions convert their argument to a float, which would fix the size to that of the example.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.capture.patches.patch import FunctionAttribute, Patch

__all__ = ["PATCHES"]

#: The functions of one number. Logarithms to other bases than 2 are left out: quotients of logarithms that are not
#: rounded alike would be rounded to different integers.
_NAMES = ("sqrt", "exp", "log", "log2")


def _is_symbolic(*numbers: Any) -> bool:
    return any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in numbers)


def _of_one(name: str) -> Callable[..., Any]:
    def result(pythons: Callable[..., Any], *args: Any) -> Any:
        if len(args) != 1 or not _is_symbolic(*args):
            return pythons(*args)
        # Only programs with dynamic sizes need sympy, which takes 0.2 s to import.
        from onnx_parity.exporter.capture.sizes.size_node import function_of

        return function_of(name, args[0])

    return result


def _pow(pythons: Callable[..., Any], *args: Any) -> Any:
    """A power, which is a float although both numbers may be integers."""
    if len(args) != 2 or not _is_symbolic(*args):
        return pythons(*args)
    number, exponent = (torch.sym_float(each) for each in args)
    return number**exponent


PATCHES: tuple[Patch, ...] = (
    *(FunctionAttribute(lambda: math, name, _of_one(name)) for name in _NAMES),
    FunctionAttribute(lambda: math, "pow", _pow),
)
