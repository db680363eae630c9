"""Operators of scripts that take plain numbers, where such a number depends on values.

    @with_numbers_as_tensors("full")
    def full(blocks, given): ...

The decorated function computes the operator with tensors of one number. An operator without one is called as torch's
function of the same name is in a program that is traced: by what is registered `with_symbolic_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf
from onnx_parity.exporter.registry.rules import Aspect, Rule, add
from onnx_parity.exporter.script.operator_arguments import DTYPE_OF_NUMBER, beside, read_numbers
from onnx_parity.exporter.script.parse import Operator
from onnx_parity.exporter.sizes.symbolic_numbers import operator_with_symbolic_numbers
from onnx_parity.exporter.torch_inside.dispatcher import schema_of

__all__ = [
    "call_with_unknown_numbers",
    "dtype_of_result",
    "scale",
    "with_factors_as_tensors",
    "with_numbers_as_tensors",
]

#: Takes the arguments by name, None if omitted. Returns `NotImplemented` if the operator itself can be called.
_Write = Callable[[Blocks, Mapping[str, Any]], Any]
_writers: dict[str, _Write] = {}


def with_numbers_as_tensors(*names: str) -> Callable[[_Write], _Write]:
    """Let the decorated function compute operators of these names where a number depends on values."""

    def register(write: _Write) -> _Write:
        for name in names:
            _writers[f"aten::{name}"] = write
            add(Rule(f"aten::{name}", Aspect.SCRIPT, write))
        return write

    return register


def call_with_unknown_numbers(blocks: Blocks, operator: Operator, values: Sequence[Any]) -> Any:
    """The result of an operator with numbers that depend on values; `NotImplemented` if there is no function for it."""
    name = schema_of(operator.call).name
    write, call = _writers.get(name), operator_with_symbolic_numbers(name)
    if write is None and call is None:
        return NotImplemented
    given = {
        parameter.name: value
        if parameter.takes_tensor or not isinstance(value, list)
        else read_numbers(blocks, operator, value)
        for parameter, value in zip(operator.parameters, values, strict=False)
    }
    if write is not None:
        result = write(blocks, {**given, "name": name.removeprefix("aten::")})
    else:
        assert call is not None
        result = _call_with_symbols(blocks, call, operator, given)
    if result is NotImplemented:
        return NotImplemented
    out = given.get("out")
    if given.get("device") is not None:
        result = result.to(given["device"])
    return result if out is None else torch.add(result, torch.zeros([], dtype=result.dtype), out=out)


def _call_with_symbols(blocks: Blocks, call: Callable[..., Any], operator: Operator, given: Mapping[str, Any]) -> Any:
    parameters = [each for each in operator.parameters if not each.named and each.name in given]
    positional = [
        given[each.name] if each.takes_tensor else read_numbers(blocks, operator, given[each.name], floats=True)
        for each in parameters
    ]
    # Operators on tensors take no dtype.
    dtype = None if any(each.takes_tensor for each in parameters) else _requested_dtype(given)
    return call(operator.call.overloadpacket, *positional, **({} if dtype is None else {"dtype": dtype}))


def _requested_dtype(given: Mapping[str, Any]) -> torch.dtype | None:
    if given.get("out") is not None:
        return given["out"].dtype  # type: ignore[no-any-return]
    return None if given.get("dtype") is None else DTYPE_OF_NUMBER[given["dtype"]]


def dtype_of_result(given: Mapping[str, Any], number: torch.Tensor | None = None) -> torch.dtype:
    """The requested dtype, or the default dtype for a number."""
    requested = _requested_dtype(given)
    if requested is not None:
        return requested
    return torch.get_default_dtype() if number is None or number.is_floating_point() else number.dtype


def scale(blocks: Blocks, x: torch.Tensor, factor: Leaf) -> torch.Tensor:
    """A tensor times a number, if there is one."""
    return x if factor is None else x * beside(blocks, x, factor)


def with_factors_as_tensors(products: Mapping[str, Callable[..., torch.Tensor]]) -> None:
    """Register operators that compute beta self + alpha (one other), where a factor depends on values.

    Some call alpha `value`, and have no beta. Those of the same names that work in place are registered too.
    """
    for name, multiply in products.items():
        for written in (name, f"{name}_"):
            with_numbers_as_tensors(written)(_write_product(written, multiply))


_OPTIONS = frozenset({"alpha", "beta", "value", "out", "name"})


def _write_product(name: str, multiply: Callable[..., torch.Tensor]) -> _Write:
    def write(blocks: Blocks, given: Mapping[str, Any]) -> Any:
        x, one, other = (each for key, each in given.items() if key not in _OPTIONS)
        factor = given.get("value") if "value" in given else given.get("alpha")
        total = scale(blocks, x, given.get("beta")) + scale(blocks, multiply(one, other), factor)
        return x.copy_(total) if name.endswith("_") else total

    return write
