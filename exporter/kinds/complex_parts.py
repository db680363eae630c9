"""`Parts`, the two real tensors that a complex one is in the graph, and the registry of rules for complex operators.

ONNX has types for complex tensors, but almost none of its operators take them. So the graph has none: the recorder
keeps the real and the imaginary part of each complex tensor, and instead of an operator on complex tensors it records
the operators on their parts that the operator's rule calls:

    @complex_of("aten::mul.Tensor")
    def mul(x, y): ...

A rule is called with the operator's arguments, in which `Parts` stand for complex tensors and for complex numbers, and
returns the operator's results, likewise with `Parts`, or `NotImplemented` for a call that it does not handle. An
operator without a rule is decomposed as torch does. A complex input, output or weight of the model is one tensor, with
the parts on a last axis of 2, as of `torch.view_as_real`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry import rules as registry
from onnx_parity.exporter.registry.rules import Aspect, Rule
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of

__all__ = [
    "ComplexRule", "Operand", "Parts", "Real", "by_parts", "complex_of", "elements_along", "is_complex_dtype",
    "parts_of", "rules",
]  # fmt: skip

#: A real tensor or number.
Real: TypeAlias = torch.Tensor | float | int | bool
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor or number."""

    real: Any
    imag: Any


def elements_along(x: Parts, dim: int, name: str) -> list[Parts]:
    """The parts of a tensor along an axis, which an operator of this name computes with one after the other."""
    if isinstance(x.real.shape[dim], Varying):
        raise refused_here(
            f"{name} of complex numbers along a dynamic axis is not supported: leave this axis out of dynamic_axes, or "
            "compute with the real and the imaginary part"
        )
    return [Parts(*pair) for pair in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True)]


#: What a rule takes in the place of a tensor that may be complex.
Operand: TypeAlias = Parts | Real


class ComplexRule(msgspec.Struct, frozen=True):
    """What is recorded instead of an operator on complex tensors."""

    #: None if it is the operator itself, once for the real and once for the imaginary part.
    function: Callable[..., Any] | None
    #: The places of the arguments that are first converted to the dtype that torch computes them in.
    promotes: Collection[int] = ()
    #: The names of the arguments that have parts, if there is no function.
    data: tuple[str, ...] = ()

    def promoted_places(self, op: OpOverload) -> Collection[int]:
        if self.function is not None:
            return self.promotes
        return [place for place, argument in enumerate(schema_of(op).arguments) if argument.name in self.data] or (0,)

    def call(self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self.function is not None:
            return self.function(*args, **kwargs)
        return _call_by_parts(op, self.promoted_places(op), args, kwargs)


_rules: dict[str, ComplexRule] = {}


def rules() -> Mapping[str, ComplexRule]:
    """All rules, by the names of operators. They are imported here, since few programs have complex numbers."""
    registry.load(Aspect.COMPLEX)
    return _rules


def complex_of(*names: str, promotes: Collection[int] = ()) -> Callable[[_Function], _Function]:
    """Register the decorated function as the rule of operators: `aten::mul.Tensor`."""

    def register(function: _Function) -> _Function:
        for name in names:
            _add(name, ComplexRule(function, promotes))
        return function

    return register


def by_parts(*names: str, data: tuple[str, ...] = ()) -> None:
    """Register operators that do the same to the real and to the imaginary part: they move, select or add elements.

    `data` are the names of the arguments with elements that move, by default the first one. A real tensor among them
    has an imaginary part of zeros. All other arguments, such as indices and masks, are the same for both parts.
    """
    for name in names:
        _add(name, ComplexRule(None, data=data))


def _add(name: str, rule: ComplexRule) -> None:
    if name in _rules:
        raise ValueError(f"{name} has two rules for complex numbers")
    _rules[name] = rule
    registry.add(Rule(name, Aspect.COMPLEX, rule.function))


def _call_by_parts(op: OpOverload, places: Collection[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    names = {argument.name: place for place, argument in enumerate(schema_of(op).arguments)}
    if is_complex_dtype(kwargs.get("dtype")):
        kwargs = {**kwargs, "dtype": kwargs["dtype"].to_real()}
    results = [
        op(
            *(_part(each, half) if place in places else each for place, each in enumerate(args)),
            **{name: _part(each, half) if names[name] in places else each for name, each in kwargs.items()},
        )
        for half in (0, 1)
    ]
    if isinstance(results[0], torch.Tensor):
        return Parts(*results)
    return [Parts(*pair) for pair in zip(*results, strict=True)]


def _part(argument: Any, half: int) -> Any:
    if isinstance(argument, Parts):
        return argument[half]
    if isinstance(argument, (list, tuple)):
        return [_part(item, half) for item in argument]
    if half == 0 or argument is None:
        return argument
    return torch.zeros_like(argument) if isinstance(argument, torch.Tensor) else 0


def parts_of(x: Operand) -> Parts:
    """The parts of an operand; those of a real one have zeros as the imaginary part."""
    return x if isinstance(x, Parts) else Parts(x, _part(x, 1))


def is_complex_dtype(dtype: object) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_complex
