"""Functions of torch that take plain numbers, and what is called in their place if these may be symbols.

    @with_symbolic_numbers(torch.diagonal, torch.Tensor.diagonal)
    def diagonal(torchs, input, offset=0, dim1=0, dim2=1): ...

Python's own conversions (`int`, `__index__`) would turn a symbol into the example's number. A function has the
parameters of torch's, after torch's function itself, so that numbers may be given by name too, and returns
`NotImplemented` where torch's serves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.registry.rules import Aspect, Rule, add

__all__ = ["OF_NUMBERS", "numbered", "with_symbolic_numbers"]

_Function = Callable[..., Any]
#: By torch's functions: what is called first, with torch's function and then the arguments.
OF_NUMBERS: dict[_Function, _Function] = {}


def with_symbolic_numbers(*functions: _Function) -> Callable[[_Function], _Function]:
    """Call the decorated function in the place of functions of torch."""

    def register(ours: _Function) -> _Function:
        for function in functions:
            OF_NUMBERS[function] = functools.partial(ours, function)
            add(Rule(_name_of(function), Aspect.NUMBERS, ours))
        return ours

    return register


def _name_of(function: _Function) -> str:
    """`torch.Tensor.narrow`, `torch.nn.functional.interpolate`."""
    owner = getattr(function, "__objclass__", None)
    if owner is not None:
        return f"torch.Tensor.{function.__name__}"
    module = getattr(function, "__module__", None) or "torch"
    return f"{module}.{function.__name__}"


def numbered(item: Any) -> Any:
    """The number of a tensor of one int, also in a list of sizes; other items unchanged."""
    if isinstance(item, torch.Tensor):
        is_number = item.ndim == 0 and not item.is_floating_point() and item.dtype is not torch.bool
        return item.item() if is_number else item
    if type(item) in (list, tuple) and any(isinstance(part, torch.Tensor) for part in item):
        return type(item)(map(numbered, item))
    return item
