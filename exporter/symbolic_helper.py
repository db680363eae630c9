"""The names of `torch.onnx.symbolic_helper` that symbolic functions import: `parse_args` and others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["parse_args"]

_F = TypeVar("_F", bound=Callable[..., Any])

_DESCRIPTORS = ("v", "i", "is", "f", "fs", "b", "s", "t", "none")


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """Convert the arguments of a symbolic function, one descriptor for each after `g`.

    `v` is a value of the graph, unchanged; `i` an int, `f` a float, `b` a bool, `s` a str, `t` a tensor; `is` and `fs`
    are lists; `none` is an argument that is not used.
    """
    for descriptor in arg_descriptors:
        if descriptor not in _DESCRIPTORS:
            raise ValueError(f"parse_args got the descriptor {descriptor!r}: give one of {', '.join(_DESCRIPTORS)}")

    def decorate(function: _F) -> _F:
        names = list(inspect.signature(function).parameters)[1:]
        kinds = dict(zip(names, arg_descriptors, strict=False))

        @functools.wraps(function)
        def parsed(g: Graph, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise TypeError(
                    f"{function.__name__} got {len(args)} arguments after g, but parse_args describes "
                    f"{len(arg_descriptors)}: give a descriptor for each"
                )
            positional = [
                _converted(arg, kind, name) for arg, kind, name in zip(args, arg_descriptors, names, strict=False)
            ]
            named = {name: _converted(arg, kinds.get(name, "v"), name) for name, arg in kwargs.items()}
            return function(g, *positional, **named)

        return parsed  # type: ignore[return-value]

    return decorate


def _converted(argument: Any, descriptor: str, name: str) -> Any:
    if descriptor in ("v", "none") or argument is None:
        return argument
    plain = _known(argument, name)
    if descriptor == "t":
        return torch.as_tensor(plain)
    if descriptor in ("is", "fs"):
        items = plain if isinstance(plain, (list, tuple, torch.Size)) else [plain]
        return [{"is": int, "fs": float}[descriptor](item) for item in items]
    if isinstance(plain, (list, tuple)):
        raise TypeError(
            f"the argument {name!r} is {list(plain)}, but parse_args describes it as {descriptor!r}: write 'is' or 'fs'"
        )
    return {"i": int, "f": float, "b": bool, "s": str}[descriptor](plain)


def _known(argument: Any, name: str) -> Any:
    """The argument as a Python value, which must be known at export."""
    if not isinstance(argument, Value):
        return argument
    if argument.constant is None:
        raise TypeError(f"the argument {name!r} is computed at run time and not known at export: describe it as 'v'")
    return argument.constant.tolist()


def _scalar(value: Any) -> Any:
    """A tensor of one element as a Python number; numbers are returned unchanged."""
    if isinstance(value, Value):
        return None if value.constant is None else value.constant.item()
    return value.item() if isinstance(value, torch.Tensor) else value


def _if_scalar_type_as(*arguments: Any) -> Any:
    """A Python number as a tensor of a value's dtype. Called with `(number, value)`, or with `(g, number, value)`, the
    form that torch.onnx had earlier."""
    number, value = arguments[-2:]
    if isinstance(number, Value):
        return number
    return torch.tensor(_scalar(number), dtype=value.dtype)
