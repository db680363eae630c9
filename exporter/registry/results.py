"""What the result of an operator is, without torch's own fake kernels: the decorator, and what a rule returns.

    @result_of("aten::linear", why="torch's fake kernel imports sympy, a third of a process's first export")
    def linear(input, weight, bias=None): ...

A rule takes the operator's arguments, whose tensors are fake, and describes each result: by a `Contiguous` or a
`Strided`, by a fake tensor that it has made, or as `OfAnyRank`. `NotImplemented` leaves the call to torch's kernel,
which also words the errors. There is one rule for an operator, for static and for dynamic sizes, whether or not the
operator is kept whole. It may ask whether expressions of sizes are the same (`same_size`), which costs nothing. A
comparison of sizes that are symbols is a question, whose answer is recorded as an assumption.

A recording asks in this order (`recording/fakes/result_cache.py`): the results that it remembers, the rule, the kernel
for tensors without data, and torch's fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load

__all__ = ["Contiguous", "OfAnyRank", "ResultRule", "Strided", "result_of", "rule_for"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Contiguous(NamedTuple):
    """A contiguous tensor, on the device of the first argument that is a tensor unless another is given."""

    dtype: torch.dtype
    shape: tuple[Size, ...]
    device: torch.device | None = None


class Strided(NamedTuple):
    """A tensor in memory of its own, on the device of the first argument that is a tensor."""

    dtype: torch.dtype
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]


class OfAnyRank(msgspec.Struct, frozen=True):
    """The result of an operator whose number of axes depends on sizes: the tensor that the example has."""

    tensor: torch.Tensor


class ResultRule(NamedTuple):
    """The function that describes the results of an operator."""

    function: Callable[..., Any]
    #: Whether it is asked in recordings without symbols too.
    static: bool


_rules: dict[str, ResultRule] = {}


def rule_for(name: str) -> ResultRule | None:
    """The rule for the operator of a name; None if it has none."""
    load(Aspect.RESULT, name)
    return _rules.get(name)


def result_of(*names: str, why: str, static: bool = True) -> Callable[[_Function], _Function]:
    """Let the function describe the results of operators.

    With `static=False` only in recordings that have symbols, because torch's kernels are right and fast without them.
    """

    def register(function: _Function) -> _Function:
        for name in names:
            if name in _rules:
                raise ValueError(f"the result of {name} is described by two functions")
            if not why:
                raise ValueError(f"the result of {name} is described without a reason")
            add(Rule(name, Aspect.RESULT, function, why))
            _rules[name] = ResultRule(function, static)
        return function

    return register
