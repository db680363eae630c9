"""Which operators torch takes one apart into: it is called with arguments that are made up, and is watched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from onnx_parity.exporter.registry.lowerings import is_lowered
from onnx_parity.exporter.torch_inside.modes import Uncompiled

__all__ = ["can_be_taken_apart", "parts_of"]

#: Shapes of tensors and dtypes of those behind the first that are tried, until a call succeeds.
_SHAPES = ((2, 4, 4), (4, 4), (4,), (1, 4, 4, 4), ())
_DTYPES = (torch.float32, torch.int64, torch.bool)
#: What a made-up call may raise.
_FAULTS = (AssertionError, IndexError, RuntimeError, TypeError, ValueError)


class _Watch(Uncompiled, TorchDispatchMode):
    """Notes the operators that are called; those that have no lowering are taken apart further."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_lowered(func) and can_be_taken_apart(func):
            with self:
                return _take_apart(func, args, kwargs or {})
        self.seen[func.name()] = None
        return func(*args, **(kwargs or {}))


def can_be_taken_apart(op: OpOverload) -> bool:
    return op in decomposition_table or op._can_decompose()


def parts_of(op: OpOverload) -> Sequence[str] | None:
    """The operators that torch's decomposition calls; None if no made-up call of it succeeds."""
    for arguments in _made_up(op):
        watch = _Watch()
        try:
            with torch.no_grad(), watch:
                _take_apart(op, arguments, {})
        except _FAULTS:
            continue
        return list(watch.seen)
    return None


def _take_apart(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    decomposition = decomposition_table.get(op)
    return decomposition(*args, **kwargs) if decomposition is not None else op.decompose(*args, **kwargs)


def _made_up(op: OpOverload) -> Iterator[list[Any]]:
    """Arguments for the parameters without defaults."""
    kinds = [
        (argument.name, str(argument.type)) for argument in op._schema.arguments if not argument.has_default_value()
    ]
    for dtype, shape in itertools.product(_DTYPES, _SHAPES):
        tensors = itertools.chain([torch.ones(shape)], itertools.repeat(torch.ones(shape, dtype=dtype)))
        yield [_value(name, kind, tensors) for name, kind in kinds]


def _value(name: str, kind: str, tensors: Iterator[torch.Tensor]) -> Any:
    if kind.startswith("Optional"):
        return None
    if kind == "Tensor":
        return next(tensors)
    if kind == "List[Tensor]":
        return [next(tensors), next(tensors)]
    one: Any = {"float": 0.5, "bool": False, "str": "mean"}.get(kind.removeprefix("List[").removesuffix("]"))
    if one is None:
        one = 0 if "dim" in name or name == "start" else 1
    return [one] if kind.startswith("List") else one
