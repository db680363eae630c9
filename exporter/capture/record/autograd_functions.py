"""Autograd functions that bring their own `symbolic`: recorded as one node, which that function will write.

class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low): ...

    @staticmethod
    def symbolic(g, x, low):
        return g.op("my_domain::Clip", x, low_f=low)
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import Function
from torch.utils import _pytree as pytree

from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["AUTOGRAD_FUNCTION", "FunctionCall", "brings_symbolic", "record_call"]


class FunctionCall:
    """A call of an autograd function: its arguments with the tensors taken out, and how its result is structured.

    An operator takes no objects, so it goes through torch's dispatcher as a number.
    """

    def __init__(self, function: type[Function], forward: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self._forward = forward
        self._leaves, self._spec = pytree.tree_flatten(args)
        self._result_leaves: list[Any] = []
        self._result_spec: pytree.TreeSpec | None = None
        self._number = next(_numbers)
        _alive[self._number] = self

    def __index__(self) -> int:
        return self._number

    @classmethod
    def numbered(cls, number: int) -> FunctionCall:
        return _alive[number]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)]

    def arguments(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with others in the place of the tensors."""
        remaining = iter(tensors)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        arguments: tuple[Any, ...] = pytree.tree_unflatten(filled, self._spec)
        return arguments

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self._result_leaves, self._result_spec = pytree.tree_flatten(self._forward(*self.arguments(tensors)))
        return [leaf for leaf in self._result_leaves if isinstance(leaf, torch.Tensor)]

    def structured(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Results in the structure that the function returns."""
        remaining = iter(tensors)
        leaves = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._result_leaves]
        assert self._result_spec is not None
        return pytree.tree_unflatten(leaves, self._result_spec)


_numbers = itertools.count()
#: Calls by number, for as long as a graph holds them.
_alive: weakref.WeakValueDictionary[int, FunctionCall] = weakref.WeakValueDictionary()


def _run(tensors: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    return [result.clone() for result in FunctionCall.numbered(call).run(tensors)]


def _shapes(tensors: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    # Made anew, because an operator must not return its argument.
    return [torch.empty_like(result) for result in FunctionCall.numbered(call).run(tensors)]


#: The operator that stands for a call.
AUTOGRAD_FUNCTION = define("autograd_function(Tensor[] tensors, int call) -> Tensor[]", _shapes)
run_by(AUTOGRAD_FUNCTION, _run)


def brings_symbolic(function: type[Function]) -> bool:
    return callable(getattr(function, "symbolic", None))


def record_call(function: type[Function], forward: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call it as one operator. `forward` is its own, with a `ctx` given where it takes one."""
    call = FunctionCall(function, forward, args)
    return call.structured(AUTOGRAD_FUNCTION(call.tensors, call.__index__()))
