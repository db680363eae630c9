"""Functions of torch that take plain numbers, and what is called in their place if these may be symbols.

    @with_symbolic_numbers(torch.narrow, torch.Tensor.narrow, "aten::narrow")
    def narrow(torchs, input, dim, start, length): ...

Python's own conversions (`int`, `__index__`) would turn a symbol into the example's number. A function has the
parameters of torch's, after torch's function itself, so that numbers may be given by name too, and returns
`NotImplemented` where torch's serves. The name of an operator stands for its steps in scripts: their numbers that
depend on values are given to the function as symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.expressions.conditions import TRUE, And, GreaterOrEqual, LessOrEqual
from onnx_parity.exporter.expressions.expression import Number
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.sizes.copies import original_of
from onnx_parity.exporter.torch_inside.code_objects import first_line
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = [
    "CLASSES",
    "are_identical",
    "function_with_symbolic_numbers",
    "in_example",
    "operator_with_symbolic_numbers",
    "read_number",
    "read_numbers_after",
    "with_symbolic_numbers",
]

asks_for_its_caller(__file__)

_Function = Callable[..., Any]
#: Of the ints from the least to the greatest, Python has one object each.
_LEAST, _GREATEST = -5, 256
_TENSORS = {torch.Tensor, torch.nn.Parameter}
#: The classes of numbers of Python that symbolic ones stand for.
CLASSES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
#: What is called in the place of torch's functions and of the operators of scripts, by their names. When the file of a
#: rule is imported, a patch may stand in the place of the function, and has its name.
_rules: dict[str, _Function] = {}


def with_symbolic_numbers(*replaced: _Function | str) -> Callable[[_Function], _Function]:
    """Call the decorated function in the place of functions of torch, and of operators of scripts."""

    def register(ours: _Function) -> _Function:
        # Comparisons of sizes in these functions are the program's.
        asks_for_its_caller(first_line(ours)[0])
        for each in replaced:
            name = each if isinstance(each, str) else _name_of(each)
            _rules[name] = ours
            add(Rule(name, Aspect.NUMBERS, ours))
        return ours

    return register


def read_numbers_after(count: int, *functions: _Function | str) -> None:
    """Read tensors of one int among the arguments after so many of them: as sizes and indices they may be symbols."""

    def call(torchs: _Function, *args: Any, **options: Any) -> Any:
        return torchs(*args[:count], *map(read_number, args[count:]), **options)

    with_symbolic_numbers(*functions)(call)


def function_with_symbolic_numbers(torchs: _Function) -> _Function | None:
    """What is called in the place of a function of torch, with this function before the arguments."""
    return operator_with_symbolic_numbers(_name_of(torchs))


def operator_with_symbolic_numbers(name: str) -> _Function | None:
    """What is called in the place of an operator of a script, with a function that calls the operator itself."""
    load(Aspect.NUMBERS, name)
    return _rules.get(name)


def read_number(item: Any) -> Any:
    """The number of a tensor of one int, also in a list of sizes; other items unchanged."""
    if isinstance(item, torch.Tensor):
        is_number = item.ndim == 0 and not item.is_floating_point() and item.dtype is not torch.bool
        return item.item() if is_number else item
    if type(item) in (list, tuple) and any(isinstance(part, torch.Tensor) for part in item):
        return type(item)(map(read_number, item))
    return item


def are_identical(one: Any, other: Any, /) -> bool:
    """`one is other`: two sizes that are equal are one, as far as Python has one object of each integer, and a tensor
    and what `contiguous` returns of it are one for some sizes."""
    kinds = {type(one), type(other)}
    if torch.SymInt in kinds and kinds <= {int, torch.SymInt}:
        return one is other or (bool(one == other) and _is_one_object(one if isinstance(one, torch.SymInt) else other))
    if kinds == {torch.SymBool}:
        return bool(one == other)
    if torch.SymBool in kinds and kinds <= {bool, torch.SymBool}:
        return bool(one) is bool(other)
    if kinds == {bool, torch.Tensor} and records_here() and recorder_here().reader.joined_at:
        raise refused_here("the program asks whether something is the object True or False, which a branch decides")
    if kinds <= _TENSORS and records_here():
        recorder_here().layouts_asked.compare(one, other)
    if one is not other and kinds == {torch.Tensor}:
        for given, copy in ((one, other), (other, one)):
            original, is_one = original_of(copy)
            if original is given:
                return bool(is_one)
    return one is other


def _is_one_object(size: torch.SymInt) -> bool:
    """Whether Python has one object of a number. Of a greater one it may have several, or one that is in several
    places, which a recording does not tell."""
    symbols, number = size.node.shape_env, size.node.expr
    limits = GreaterOrEqual.of(number, Number(_LEAST)), LessOrEqual.of(number, Number(_GREATEST))
    is_small = And.of(*[each for each in limits if symbols.known_if_occupied(each) is not True], TRUE)
    if symbols.decided(is_small):
        return True
    if symbols.holds_in_example(is_small):
        return False  # The other side of the question is looked at.
    raise refused_here(
        f"the program asks whether two numbers are one object of Python, which has one of each up to {_GREATEST}, "
        "and the size is greater in the example: compare them with =="
    )


def in_example(size: Any) -> int:
    """A size, as it is in the example if it is a symbol."""
    return int(size.node.shape_env.number_in_example(size, {})) if isinstance(size, torch.SymInt) else size


def _name_of(function: _Function) -> str:
    """`torch.Tensor.narrow`, `torch.nn.functional.interpolate`."""
    name = getattr(function, "__name__", "")
    if getattr(function, "__objclass__", None) is not None:
        return f"torch.Tensor.{name}"
    return f"{getattr(function, '__module__', None) or 'torch'}.{name}"
