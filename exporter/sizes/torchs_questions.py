"""The questions that torch's fake kernels ask about sizes, without the module of torch that asks them.

That module, `torch.fx.experimental.symbolic_shapes`, imports sympy, which takes 0.25 s. While a program with dynamic
sizes is recorded a placeholder has these functions in its place, which do the same for numbers of Python and for sizes
of this exporter. Any other call, and any other name, imports torch's own. torch's fake tensors import sympy themselves
too, for real tensors beside the fake ones, which there are not here.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.sizes.size_node import SizeNode
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.imports import StandIn, imported, is_imported, standing_in
from onnx_parity.exporter.torch_inside.sym_nodes import QUESTIONS

__all__ = ["torchs_questions"]

asks_for_its_caller(__file__)

_PLAIN = (bool, int, float)


def _varying(number: Any) -> list[Any]:
    """The symbolic numbers in an argument."""
    if isinstance(number, Varying):
        return [number]
    if isinstance(number, torch.Tensor):
        return [
            each for sizes in (number.size(), number.stride(), [number.storage_offset()]) for each in _varying(sizes)
        ]
    return [part for each in number for part in _varying(each)] if isinstance(number, (tuple, list)) else []


def _symbols(number: Any) -> set[Any]:
    return {symbol for each in _varying(number) for symbol in each.node.expr.free_symbols}


def _of_values(number: Any) -> set[Any]:
    """The symbols of an argument that depend on values of tensors."""
    found = _varying(number)
    return {symbol for symbol in _symbols(number) if found[0].node.shape_env.is_unbacked_symint(symbol)}


def _ask(method: str) -> Callable[..., Any]:
    return lambda number, *_, **__: number if isinstance(number, _PLAIN) else getattr(number.node, method)("", 0)


def _equal(one: Any, other: Any) -> Any:
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and functools.reduce(operator.and_, map(_equal, one, other), True)
    return one == other


def _constrain(size: torch.SymInt, min: int | None = None, max: int | None = None) -> None:
    size.node.shape_env.constrain(size, min, max)


_KNOWN: dict[str, Callable[..., Any]] = {
    "_constrain_range_for_size": _constrain,
    "compute_unbacked_bindings": lambda *_, **__: None,
    "expect_true": _ask("expect_true"),
    "free_symbols": _symbols,
    "free_unbacked_symbols": _of_values,
    "guard_bool": _ask("guard_bool"),
    "guard_float": _ask("guard_float"),
    "guard_int": _ask("guard_int"),
    "guard_or_false": _ask("guard_or_false"),
    "guard_or_true": _ask("guard_or_true"),
    "guard_size_oblivious": _ask("guard_size_oblivious"),
    "has_free_symbols": lambda number: bool(_symbols(number)),
    "has_free_unbacked_symbols": lambda number: bool(_of_values(number)),
    "has_guarding_hint": lambda number: isinstance(number, _PLAIN) or number.node.has_hint(),
    "is_nested_int": lambda number: False,
    "is_symbolic": lambda number: isinstance(number, Varying),
    "statically_known_true": _ask("statically_known_true"),
    "sym_and": lambda *conditions: functools.reduce(operator.and_, conditions),
    "sym_eq": _equal,
    "sym_or": lambda *conditions: functools.reduce(operator.or_, conditions),
}


def _are_ours(arguments: Any) -> bool:
    """Whether the arguments are plain, or numbers of this exporter."""
    return all(isinstance(each.node, SizeNode) for each in _varying(arguments))


def _known(name: str) -> Callable[..., Any]:
    function = _KNOWN[name]

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if _are_ours(args) else getattr(_torchs(), name)(*args, **kwargs)

    return call


def _torchs() -> Any:
    """torch's own module."""
    module = imported(QUESTIONS)
    return module.real() if isinstance(module, StandIn) else importlib.import_module(QUESTIONS)


_FOR_OURS_AND_TORCHS = {name: _known(name) for name in _KNOWN}


def torchs_questions() -> AbstractContextManager[None]:
    """A context in which torch's module is not imported for the usual questions."""
    if is_imported(QUESTIONS):  # It has imported sympy.
        return nullcontext()
    return standing_in("sympy", StandIn(QUESTIONS, known=_FOR_OURS_AND_TORCHS))
