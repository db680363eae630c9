"""Autograd functions that have a method `symbolic`. Each call is recorded as one node, which `symbolic` lowers.

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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.function import Function

from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.code_objects import names_called_by

__all__ = ["AUTOGRAD_FUNCTION", "FunctionCall", "has_symbolic", "record_call"]


class FunctionCall:
    """A call of an autograd function: its arguments without the tensors, and the structure of its result.

    An operator cannot take a Python object as an argument, so the dispatcher gets a number in place of the call.
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
        """The arguments, with the tensors replaced by these."""
        remaining = iter(tensors)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        arguments: tuple[Any, ...] = pytree.tree_unflatten(filled, self._spec)
        return arguments

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self._result_leaves, self._result_spec = pytree.tree_flatten(self._forward(*self.arguments(tensors)))
        return [leaf for leaf in self._result_leaves if isinstance(leaf, torch.Tensor)]

    def structured(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The given result tensors in the structure that the function returns."""
        remaining = iter(tensors)
        leaves = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._result_leaves]
        assert self._result_spec is not None
        return pytree.tree_unflatten(leaves, self._result_spec)


_numbers = itertools.count()
#: Calls by their numbers, for as long as a graph refers to them.
_alive: weakref.WeakValueDictionary[int, FunctionCall] = weakref.WeakValueDictionary()


def _run(tensors: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    return [result.clone() for result in FunctionCall.numbered(call).run(tensors)]


def _shapes(tensors: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    # New tensors, because an operator must not return its argument.
    return [torch.empty_like(result) for result in FunctionCall.numbered(call).run(tensors)]


#: The operator that represents a call.
AUTOGRAD_FUNCTION = define("autograd_function(Tensor[] tensors, int call) -> Tensor[]", _shapes)
run_by(AUTOGRAD_FUNCTION, _run)


def has_symbolic(function: type[Function]) -> bool:
    """Whether a function has a method `symbolic` that adds nodes through `g`.

    One that calls torch's own symbolic functions needs torch's graph, as that of SEW-D's softmax does in transformers.
    The forward is recorded then, like any other function.
    """
    symbolic: Any = getattr(function, "symbolic", None)
    if not callable(symbolic):
        return False
    return not any(_is_of_torchs_graph(name, symbolic.__globals__) for name in names_called_by(symbolic))


def _is_of_torchs_graph(name: str, scope: Mapping[str, Any]) -> bool:
    module: str | None = getattr(scope.get(name), "__module__", None)
    return "symbolic_opset" in name or "symbolic_opset" in (module or "")


def record_call(function: type[Function], forward: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Record a call of the function as one operator. `forward` is the function's own, with `ctx` bound."""
    call = FunctionCall(function, forward, args)
    return call.structured(AUTOGRAD_FUNCTION(call.tensors, call.__index__()))
