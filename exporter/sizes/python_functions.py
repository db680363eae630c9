"""Python's `int`, `float`, `len`, `max`, `type`, `any`, `next` and others like these, for dynamic sizes.

Python makes plain numbers of what `int`, `float` and `len` are given, which would fix a size to that of the example;
the type of a symbolic size is not `int`, `max` branches on which of two is larger, and no size is the object 4. The
functions of this file differ from Python's for symbolic numbers alone. The calls in a program are exchanged for calls
of them, and `is` for what asks whether numbers are equal.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator
from types import GeneratorType, ModuleType
from typing import Any

import torch

from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.sizes.looped import Items, Range, applied, items_in, reversed_items, with_numbers, zipped
from onnx_parity.exporter.sizes.over_items import OVER_ITEMS
from onnx_parity.exporter.sizes.size_node import bit_length_of, with_text_of_number
from onnx_parity.exporter.sizes.symbolic_numbers import CLASSES, are_identical
from onnx_parity.exporter.torch_inside.code_objects import ExchangedCalls, place_of
from onnx_parity.exporter.torch_inside.frames import (
    FrameType,
    asks_for_its_caller,
    code_and_module,
    current_frame,
    library_names,
    module_that_calls,
)
from onnx_parity.exporter.torch_inside.loops.loops_of_python import begins_loop_to_leave, iterated
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = ["CALLS_WITH_SIZES", "follow_calls_in"]

asks_for_its_caller(__file__)

#: The names of the classes of symbolic numbers in the text of an error.
_OF_SYMBOLS = re.compile(r"\bSym(Int|Float|Bool)\b")
_REFUSAL = (
    "the program catches an error that a dynamic size raises, and the number of an example does not: a size is no key "
    "of a dict or a set, and some functions do not take one. Compute with the size outside of the `try`"
)
_INTEGERS, _REALS = frozenset({int, torch.SymInt}), frozenset({float, torch.SymFloat})


def _int(*args: Any, **kwargs: Any) -> Any:
    args = _read(args)
    return with_text_of_number(torch.sym_int(args[0])) if _is_of_a_size(args) and not kwargs else int(*args, **kwargs)


def _float(*args: Any) -> Any:
    args = _read(args)
    return with_text_of_number(torch.sym_float(args[0])) if _is_of_a_size(args) else float(*args)


def _bool(*args: Any) -> Any:
    is_tensor = len(args) == 1 and isinstance(args[0], torch.Tensor)
    is_looped = is_tensor and records_here() and Decision.LOOPS_BY_VALUES in recorder_here().decisions
    return (args[0] != 0).item() if is_looped else bool(*args)


def _read(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A number that is read from a tensor, as `item` returns it: as a symbol if it depends on an input."""
    if len(args) != 1 or not isinstance(args[0], torch.Tensor) or args[0].dtype is torch.bool:
        return args
    is_number = all(type(size) is int and size == 1 for size in args[0].shape)
    return (args[0].item(),) if is_number else args


def _is_of_a_size(args: tuple[Any, ...]) -> bool:
    return len(args) == 1 and type(args[0]) in (torch.SymInt, torch.SymFloat)


def _len(value: Any, /) -> Any:
    if (items := None if isinstance(value, torch.Tensor) else items_in(value)) is not None:
        return with_text_of_number(items.length)
    if isinstance(value, torch.Tensor) and type(value).__len__ is torch.Tensor.__len__ and value.dim():
        return with_text_of_number(value.shape[0])
    return len(value)


def _range(*args: Any) -> Any:
    """A range of symbolic numbers, unless there are no more of them than of one number; and one of known numbers over
    which a loop goes that ends by the value of a tensor, where that is to be a loop of the model."""
    if not any(type(each) is torch.SymInt for each in args):
        numbers = range(*args)
        is_looped = records_here() and Decision.LOOPS_BY_VALUES in recorder_here().decisions
        if not (is_looped and len(numbers) > 1 and begins_loop_to_leave(current_frame(1))):
            return numbers
        return Range(numbers.start, numbers.stop, numbers.step)
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    items = Range(start, stop, step)
    return items if type(items.length) is torch.SymInt else [items.item(place) for place in range(items.length)]


def _enumerate(values: Any, start: int = 0) -> Any:
    items = items_in(values)
    return enumerate(values, start) if items is None else with_numbers(items, start)


def _zip(*values: Any, strict: bool = False) -> Any:
    found = [items_in(each) for each in values]
    several = [items for items in found if items is not None]
    if several and len(several) == len(values):
        return zipped(several)
    # As many as another of them has.
    given = [each if items is None else items.as_in_example() for each, items in zip(values, found, strict=True)]
    return zip(*given, strict=strict)


def _reversed(values: Any) -> Any:
    items = items_in(values)
    return reversed(values) if items is None else reversed_items(items)


def _map(function: Any, /, *values: Any) -> Any:
    if len(values) == 1 and (items := items_in(values[0])) is not None:
        return applied(function, items)
    return map(_NUMBERS.get(function, function) if isinstance(function, type) else function, *values)


def _type(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1:
        kind = type(args[0])
        return CLASSES.get(kind, kind)
    # The module of a new class is that of the calling frame.
    name, bases, attributes = args
    return type(name, bases, {"__module__": module_that_calls(1), **attributes}, **kwargs)


def _extreme(pythons: Callable[..., Any], of_symbols: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Python's `max` or `min`, which compares, and so branches on which number is larger."""

    is_beyond = operator.gt if pythons is max else operator.lt

    def result(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and kwargs.keys() <= {"key"} and (items := _looped(args[0])) is not None:
            return Items.most(items, is_beyond, kwargs.get("key") or (lambda item: item))
        if len(args) == 1 and isinstance(args[0], Iterator):
            args = ([*args[0]],)
        numbers = args[0] if len(args) == 1 and type(args[0]) in (tuple, list, torch.Size) else args
        kinds = {*map(type, numbers)}
        is_symbolic = not kinds.isdisjoint(CLASSES) and (kinds <= _INTEGERS or kinds <= _REALS)
        return functools.reduce(of_symbols, numbers) if is_symbolic and not kwargs else pythons(*args, **kwargs)

    return result


def _round(number: Any, *args: Any, **kwargs: Any) -> Any:
    digits = args[0] if args else kwargs.get("ndigits")
    if type(number) is not torch.SymInt or digits is None or digits >= 0:
        return round(number, *args, **kwargs)
    base = 10**-digits
    whole, rest = number // base, number % base
    # Up from more than half, and from half to an even multiple.
    return (whole + (2 * rest + whole % 2) // (base + 1)) * base


def _divmod(number: Any, divisor: Any, /) -> Any:
    is_symbolic = type(number) in CLASSES or type(divisor) in CLASSES
    return (number // divisor, number % divisor) if is_symbolic else divmod(number, divisor)


def _numel(of: Any) -> Any:
    """The number of elements of a shape, of which torch's own makes a plain number; or of a tensor."""
    return math.prod(of) if type(of) is torch.Size else of.numel()


def _bit_length(number: Any) -> Any:
    return bit_length_of(number) if type(number) is torch.SymInt else number.bit_length()


def _as_list(pythons: Callable[..., Any]) -> Callable[..., Any]:
    """Python's `list` or `tuple`, where the number of items is a dynamic size."""

    def result(*values: Any) -> Any:
        items = _looped(values[0]) if len(values) == 1 else None
        if items is None and len(values) == 1 and type(values[0]) is GeneratorType:
            # It may be one with a loop over a dynamic size.
            Items.load()
            items = values[0]
        if items is None:
            return pythons(*values)
        made: Any = Items.as_list(items)
        if items_in(made) is None:
            return pythons(made)
        made.is_tuple = pythons is tuple
        return made

    return result


def _sum(values: Any, /, start: Any = 0) -> Any:
    items = _looped(values)
    return sum(values, start) if items is None else Items.total(items, start)


def _any(values: Any, /) -> Any:
    items = _looped(values)
    return any(values) if items is None else Items.has_true(items)


def _all(values: Any, /) -> Any:
    items = _looped(values)
    return all(values) if items is None else Items.are_true(items)


def _iter(values: Any, /, *end: Any) -> Any:
    items = items_in(values) if not end else None
    if items is None:
        return iter(values, *end)
    return Items.loop.asked_itself(items)


def _next(iterator: Any, /, *default: Any) -> Any:
    is_of_loop = isinstance(iterator, Items.loop)
    return iterator.take(*default) if is_of_loop else next(iterator, *default)


def _looped(values: Any) -> Any:
    """What a loop over some values is recorded over: items, or a generator expression over items."""
    return values if isinstance(iterated(values), Items.loop) else items_in(values)


def _comprehension(items: Any, comprehension: Callable[[Any], Any]) -> Any:
    return Items.comprehended(items, comprehension) if isinstance(items, Items.loop) else comprehension(items)


def _note_caught(error: BaseException) -> bool:
    """Note an error that the program handles, if a number had not raised it. A library may expect what is no number."""
    if records_here() and _OF_SYMBOLS.search(str(error)) and not library_names("TypeError", current_frame(2)):
        symbols = recorder_here().fakes.symbols
        assert symbols is not None
        symbols.caught = symbols.caught or refused_here(f"{_REFUSAL} ({error})")
    return False


_NUMBERS: dict[type, Callable[..., Any]] = {int: _int, float: _float, bool: _bool}
#: The functions by the names of Python's.
_WITH_SIZES: dict[str, Callable[..., Any]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "len": _len,
    "map": _map,
    "type": _type,
    "max": _extreme(max, torch.sym_max),
    "min": _extreme(min, torch.sym_min),
    "divmod": _divmod,
    "list": _as_list(list),
    "tuple": _as_list(tuple),
    "sum": _sum,
    "any": _any,
    "all": _all,
    "iter": _iter,
    "next": _next,
    "enumerate": _enumerate,
    "range": _range,
    "reversed": _reversed,
    "zip": _zip,
    "round": _round,
}
#: Functions for which others are called as attributes of their modules. Files also import them by their names.
_OF_MODULES = {
    math: ("cos", "exp", "fabs", "gcd", "isqrt", "log", "log10", "log2", "pow", "sin", "sqrt", "tanh"),
    operator: ("index",),
    torch: ("ceil", "chunk", "floor"),
    torch.nn.functional: ("scaled_dot_product_attention",),
}


def _of_module(module: ModuleType, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of a module, and one that calls what is now in its place."""
    function = getattr(module, name)

    def ours(*args: Any, **kwargs: Any) -> Any:
        return getattr(module, name)(*args, **kwargs)

    return getattr(function, "__wrapped__", function), ours


#: A program calls these while it is recorded with dynamic sizes.
CALLS_WITH_SIZES = ExchangedCalls(
    _WITH_SIZES,
    {name: _of_module(module, name) for module, names in _OF_MODULES.items() for name in names}
    | {
        name: (getattr(module, name), ours)
        for module, functions in OVER_ITEMS.items()
        for name, ours in functions.items()
    },
    OVER_ITEMS,
    {"numel": _numel, "bit_length": _bit_length},
    are_identical,
    _note_caught,
    _comprehension,
)


def follow_calls_in(asker: FrameType, followed: Collection[str]) -> None:
    """Have the program recorded again if a function of Python's, which it calls here, may have asked about a size, and
    the calls in this code were not exchanged. `followed` are the places of code for which that was done."""
    code, module = code_and_module(asker)
    if CALLS_WITH_SIZES.are_missed_in(code) and place_of(code) not in followed:
        raise Reconsider(Decision.FOLLOW_FUNCTIONS, codes=[(module, code)])
