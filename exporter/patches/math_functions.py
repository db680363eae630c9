"""Functions of `math` and numpy, which take plain numbers: `math.sqrt(x.shape[1])` is computed from the dynamic size.

Python's own functions convert their argument to a float, which would fix the size to that of the example. Besides,
operators of symbolic numbers as Python has them: `//` of real numbers, those of conditions that Python takes for the
numbers 0 and 1, and operands of a subclass of `int`; and the class that a program sees, `n.__class__`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.sizes.symbolic_numbers import CLASSES, are_identical, in_example
from onnx_parity.exporter.torch_inside.frames import (
    asks_for_its_caller,
    current_frame,
    is_asked_by_user,
    who_asks,
)
from onnx_parity.exporter.torch_inside.patch import Attribute, FunctionAttribute, FunctionCode, Patch, of_module
from onnx_parity.exporter.torch_inside.this_thread import records_here

__all__ = ["WITH_SYMBOLS"]

asks_for_its_caller(__file__)

#: The functions of one number, which numpy has too.
_NAMES = ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tanh")


def _is_symbolic(number: Any) -> bool:
    return isinstance(number, (torch.SymInt, torch.SymFloat))


def _of_one(name: str) -> Callable[..., Any]:
    def result(pythons: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if name == "log" and len(args) == 2 and any(map(_is_symbolic, args)):
            return math.log(args[0]) / math.log(args[1])
        if kwargs or len(args) != 1 or not _is_symbolic(args[0]):
            return pythons(*args, **kwargs)
        node = args[0].node
        if node.has_hint():
            pythons(node.hint)  # Python's error for numbers that have no root or logarithm.
        # Only programs with dynamic sizes need it.
        from onnx_parity.exporter.sizes.size_node import function_of

        return function_of(name, args[0])

    return result


def _is_size(args: tuple[Any, ...]) -> bool:
    return len(args) == 1 and type(args[0]) is torch.SymInt


def _magnitude(pythons: Callable[..., Any], number: Any) -> Any:
    return abs(torch.sym_float(number)) if _is_symbolic(number) else pythons(number)


def _square_root(pythons: Callable[..., Any], *args: Any) -> Any:
    """The root of a size, rounded down, which is exact in float64 below 2 ** 52."""
    if len(args) != 1 or not isinstance(args[0], torch.SymInt) or not args[0].node.has_hint():
        return pythons(*args)
    return math.floor(math.sqrt(args[0]))


def _common_divisor(pythons: Callable[..., Any], *numbers: Any) -> Any:
    """The greatest common divisor of a size and a plain number: the powers of primes that divide both."""
    size, other = numbers if len(numbers) == 2 and isinstance(numbers[0], torch.SymInt) else (*numbers[::-1], None)[:2]
    if len(numbers) != 2 or not isinstance(size, torch.SymInt) or type(other) is not int or not other:
        return pythons(*numbers)
    found: Any = 1
    for prime, power in _prime_powers(abs(other)):
        found = found * (1 + (prime - 1) * (1 - torch.sym_min(size % power, 1)))
    return found


def _prime_powers(number: int) -> Iterator[tuple[int, int]]:
    """The powers of primes that divide a number, each with its prime."""
    prime, rest = 2, number
    while rest > 1:
        if prime * prime > rest:
            prime = rest
        power = prime
        while rest % prime == 0:
            yield prime, power
            rest, power = rest // prime, power * prime
        prime += 1


def _pow(pythons: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A power, which is a float although both numbers may be integers."""
    if kwargs or len(args) != 2 or not any(map(_is_symbolic, args)) or not _may_be_a_base(args[0]):
        return pythons(*args, **kwargs)
    if not _is_symbolic(args[1]) and not isinstance(args[1], (int, float)):
        return pythons(*args)
    number, exponent = (torch.sym_float(each) for each in args)
    return number**exponent


def _may_be_a_base(base: Any) -> bool:
    """Whether all powers of a number are real: of a size, and of a positive number."""
    if isinstance(base, torch.SymInt):
        return bool(base.node.shape_env.never_negative(base))
    return isinstance(base, (int, float)) and base > 0


def _floor_division(torchs: Callable[..., Any], number: Any, divisor: Any) -> Any:
    """Python computes `//` of real numbers by the exact remainder, and torch by a quotient that is rounded: that by a
    power of two is exact."""
    is_real = type(number) is torch.SymFloat or type(divisor) is float
    if is_real and type(divisor) in (int, float) and abs(math.frexp(divisor)[0]) == 0.5:
        return torch.sym_float(math.floor(number / divisor))
    return _refused_if_real(torchs, number, divisor)


def _refused_if_real(torchs: Callable[..., Any], *numbers: Any) -> Any:
    if any(type(number) in (float, torch.SymFloat) for number in numbers):
        raise refused_here(
            "// of real numbers that are computed from dynamic sizes is not supported, use math.floor(a / b)"
        )
    return torchs(*numbers)


def _as_number(operation: Callable[..., Any], torchs: Any = None) -> Callable[..., Any]:
    """An operation on conditions that is one of numbers, so that which of 0 and 1 a condition is decides the result."""
    return lambda condition, *others: operation(int(condition), *map(_without_condition, others))


def _without_condition(number: Any) -> Any:
    return int(number) if type(number) is torch.SymBool else number


def _bitwise(operation: Callable[..., Any], ours: Callable[..., Any] | None, torchs: Any) -> Callable[..., Any]:
    """`&`, `|` and `^` of a condition, of which torch does not have those with a number."""

    def result(condition: torch.SymBool, other: Any) -> Any:
        of_two = isinstance(other, (bool, torch.SymBool, torch.Tensor))
        return (ours or torchs)(condition, other) if of_two else _as_number(operation)(condition, other)

    return result


def _either(condition: torch.SymBool, other: Any) -> Any:
    """`^` of conditions on sizes, which torch does not have."""
    if isinstance(other, bool):
        return torch.sym_not(condition) if other else condition
    return (condition | other) & torch.sym_not(condition & other)


def _contraction_path(planners: Callable[..., Any], equation: str, *operands: Any, **options: Any) -> Any:
    """In which order `torch.einsum` multiplies its operands: that which is best for the example. All are right."""
    shapes = [tuple(map(in_example, each.shape)) for each in operands]
    return planners(equation, *shapes, shapes=True, **options)


def _node_of(torchs: Callable[..., Any], node: Any, number: Any) -> Any:
    """The node of an operand. torch takes no subclasses of `int` and `float`, such as members of an `IntEnum`."""
    made = torchs(node, number)
    if made is NotImplemented and isinstance(number, (int, float)):
        return torchs(node, int(number) if isinstance(number, int) else float(number))
    return made


def _formatted(pythons: Callable[..., str], number: torch.SymInt | torch.SymFloat, form: str) -> str:
    """The text of a size in a format, which torch's symbolic numbers do not take."""
    if not number.node.has_hint():
        return pythons(number, form)
    text: str = number.node.formatted(form, who_asks(current_frame())[0])
    return text


def _of_numbers(ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numpy on numbers, or on a list of them, some of which are symbolic: what is computed of these."""

    def result(numpys: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        numbers = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if kwargs or not any(map(_is_symbolic, numbers)) or not all(map(_is_number, numbers)):
            return numpys(*args, **kwargs)
        return ours(*numbers)

    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat))


def _greatest(*numbers: Any) -> Any:
    return functools.reduce(torch.sym_max, numbers)


def _least(*numbers: Any) -> Any:
    return functools.reduce(torch.sym_min, numbers)


def _rounded(number: Any, *digits: int) -> Any:
    """As Python rounds it, but a fraction stays one. Tens of a size are those of the example, which fixes the size."""
    if isinstance(number, (int, torch.SymInt)):
        return round(int(number), *digits) if digits else number
    return torch.sym_float(round(number, *digits))


def _log1p(theirs: Callable[..., Any], number: Any, *args: Any, **kwargs: Any) -> Any:
    """Of a dynamic size. The sum of 1 and a fraction may lose the digits of the fraction."""
    if args or kwargs or not isinstance(number, torch.SymInt):
        return theirs(number, *args, **kwargs)
    return math.log(1 + number)


#: What is computed in the place of functions of numpy. Those that numpy itself calls as an object with methods, such as
#: `np.maximum`, are left alone.
_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "max": _greatest,
    "min": _least,
    "clip": lambda number, least, greatest: _least(_greatest(number, least), greatest),
    "round": _rounded,
}


def _class_seen(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Read the class of a symbolic number for the program as that of a number, also where `isinstance` asks for it."""

    def get(number: Any, name: str) -> Any:
        if name == "__class__" and records_here() and is_asked_by_user(1):
            return CLASSES[type(number)]
        return read(number, name)

    return get


WITH_SYMBOLS: tuple[Patch, ...] = (
    *(FunctionAttribute(module, name, _of_one(name)) for module in (math, np) for name in _NAMES),
    *(FunctionAttribute(np, name, _of_numbers(ours)) for name, ours in _OF_NUMBERS.items()),
    *(FunctionAttribute(module, "log1p", _log1p) for module in (math, np)),
    *(FunctionAttribute(kind, "__format__", _formatted) for kind in (torch.SymInt, torch.SymFloat)),
    FunctionAttribute(math, "fabs", _magnitude),
    FunctionAttribute(math, "pow", _pow),
    FunctionAttribute(math, "isqrt", _square_root),
    FunctionAttribute(math, "gcd", _common_divisor),
    Attribute(of_module("torch.fx.experimental.sym_node"), "to_node", lambda torchs: partial(_node_of, torchs)),
    *(
        FunctionCode(kind, name, divide)
        for kind in (torch.SymInt, torch.SymFloat)
        for name, divide in (("__floordiv__", _floor_division), ("__rfloordiv__", _refused_if_real))
    ),
    *(
        Attribute(torch.SymBool, f"__{side}{name}__", partial(_bitwise, do, ours))
        for name, do, ours in (("and", operator.and_, None), ("or", operator.or_, None), ("xor", operator.xor, _either))
        for side in ("", "r")
    ),
    *(
        Attribute(torch.SymBool, f"__{do.__name__}__", partial(_as_number, do))
        for do in (operator.index, operator.invert, operator.neg, operator.lt, operator.le, operator.gt, operator.ge)
    ),
    *(Attribute(each, "__getattribute__", _class_seen) for each in CLASSES),
    FunctionAttribute(operator, "index", lambda pythons, *args: args[0] if _is_size(args) else pythons(*args)),
    FunctionAttribute(operator, "is_", lambda pythons, one, other: are_identical(one, other)),
    FunctionAttribute(operator, "is_not", lambda pythons, one, other: not are_identical(one, other)),
    FunctionAttribute(of_module("opt_einsum"), "contract_path", _contraction_path),
)
