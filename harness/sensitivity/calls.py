"""The calls of torch's functions that a program makes: their arguments by name, and the defaults of these."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from onnx_parity.harness.operators.names import base_of

__all__ = ["Call", "Calls", "Changed", "Parameter", "is_tensor_in"]

Function = Callable[..., Any]


#: Python's names for `+=` and the like.
_IN_PLACE = {
    f"__i{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
}

#: The parameters that take a list, and whose elements may be given one by one.
_LISTED = {"dims", "dim", "size", "shape", "repeats"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function of torch."""

    name: str
    default: object = inspect.Parameter.empty

    @property
    def is_optional(self) -> bool:
        return self.default is not inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of torch."""

    function: Function
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    #: None if it is not known how the arguments are called.
    parameters: tuple[Parameter, ...] | None

    @classmethod
    def of(cls, function: Function, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Call:
        given = tuple(arguments)
        found = _parameters(function, given, keywords)
        if found is None:
            # `x.permute(1, 0)` is `x.permute([1, 0])`.
            ints = next((place for place, each in enumerate(given) if type(each) is int), len(given))
            listed = (*given[:ints], list(given[ints:]))
            found = _parameters(function, listed, keywords) if ints < len(given) else None
            is_such = found is not None and len(listed) <= len(found) and found[ints].name in _LISTED
            given, found = (listed, found) if is_such else (given, None)
        return cls(function, given, keywords, found)

    @property
    def operator(self) -> str:
        return base_of(f"torch.{self.function.__name__}").strip("_")

    @property
    def writes(self) -> bool:
        """Whether the call writes into a tensor that it is given."""
        name = self.function.__name__
        is_in_place = name.endswith("_") and not name.endswith("__")
        return is_in_place or name == "__setitem__" or name in _IN_PLACE or "out" in self.keywords

    def given(self) -> Iterator[tuple[Parameter, Any]]:
        """The parameters of a known name, with what the call gives for them, or their defaults."""
        for place, parameter in enumerate(self.parameters or ()):
            if place < len(self.arguments):
                yield parameter, self.arguments[place]
            elif parameter.name in self.keywords or parameter.is_optional:
                yield parameter, self.keywords.get(parameter.name, parameter.default)

    def value(self, name: str, otherwise: object = None) -> Any:
        return next((value for parameter, value in self.given() if parameter.name == name), otherwise)

    def having(self, name: str, value: object) -> Call:
        """The call with another value for a parameter."""
        names = [parameter.name for parameter in self.parameters or ()]
        place = names.index(name)
        if place < len(self.arguments):
            return replace(self, arguments=(*self.arguments[:place], value, *self.arguments[place + 1 :]))
        return replace(self, keywords={**self.keywords, name: value})

    def run(self) -> Any:
        return self.function(*self.arguments, **self.keywords)


#: What a call returns instead. It is given the number of the call.
Changed = Callable[[int, Call], Any]


class Calls(TorchFunctionMode):
    """Lets a function return what calls that a program makes give. Calls within these are not seen."""

    def __init__(self, changed: Changed) -> None:
        super().__init__()
        self._changed = changed
        self._number = 0

    def __torch_function__(
        self,
        func: Function,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        call = Call.of(func, args, kwargs or {}) if _is_operator(func) else None
        if call is None or call.writes:
            return func(*args, **(kwargs or {}))
        self._number += 1
        return self._changed(self._number, call)


def is_tensor_in(value: object) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value))


@cache
def _is_operator(function: Function) -> bool:
    name = getattr(function, "__name__", "")
    return bool(name) and name not in ("__get__", "__set__", "__delete__") and not name.startswith("_set_")


def _parameters(
    function: Function, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Parameter, ...] | None:
    return _of_signature(function) or _of_schema(function.__name__, arguments, keywords)


@cache
def _of_signature(function: Function) -> tuple[Parameter, ...] | None:
    """The parameters of a function in Python that names them all."""
    if not inspect.isfunction(function):
        return None
    found = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found):
        return None
    return tuple(Parameter(each.name, each.default) for each in found)


def _of_schema(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Parameter, ...] | None:
    """The parameters of the operator of this name, in the overload that takes these arguments."""
    # A tensor may stand for a number: `torch.full((2, 3), x.sum())`.
    for given in ((arguments, keywords), tree_map_only(torch.Tensor, _as_number, (arguments, keywords))):
        with suppress(RuntimeError):
            overload = torch._C._jit_resolve_packet(f"aten::{name}", *given[0], **given[1])
            return _of_overload(f"aten::{name}", "" if overload == "default" else overload)
    return None


def _as_number(tensor: torch.Tensor) -> object:
    if tensor.dim():
        return tensor
    return 0.0 if tensor.is_floating_point() else 0


@cache
def _of_overload(name: str, overload: str) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(each.name, each.default_value if each.has_default_value() else inspect.Parameter.empty)
        for each in torch._C._get_schema(name, overload).arguments
    )
