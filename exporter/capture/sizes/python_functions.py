"""Python's `int`, `float`, `len`, `isinstance`, `max`, `min` and `divmod`, as a program calls them with dynamic sizes.

Python makes plain numbers of what `int`, `float` and `len` are given, which would fix a size to that of the example; a
symbolic size is no `int` to `isinstance`, and `max` branches on which of two is larger. So while a program is recorded,
its functions call the functions of this file, which differ for symbolic numbers alone. They are exchanged in the code
of these functions, so that all other code goes on calling Python's.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from opcode import opmap
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from onnx_parity.exporter.capture.graph.origin import asks_for_its_caller
from onnx_parity.exporter.capture.sizes.size_node import with_text_of_number

__all__ = ["NAMES", "calls_with_sizes"]

asks_for_its_caller(__file__)


def _int(*args: Any, **kwargs: Any) -> Any:
    return with_text_of_number(torch.sym_int(args[0])) if _is_of_a_size(args) and not kwargs else int(*args, **kwargs)


def _float(*args: Any) -> Any:
    return with_text_of_number(torch.sym_float(args[0])) if _is_of_a_size(args) else float(*args)


def _is_of_a_size(args: tuple[Any, ...]) -> bool:
    return len(args) == 1 and type(args[0]) in (torch.SymInt, torch.SymFloat)


def _len(value: Any, /) -> Any:
    if isinstance(value, torch.Tensor) and type(value).__len__ is torch.Tensor.__len__ and value.dim():
        return with_text_of_number(value.shape[0])
    return len(value)


def _isinstance(value: Any, kinds: Any, /) -> bool:
    return isinstance(value, kinds) or (type(value) in _LIKE and isinstance(_LIKE[type(value)], kinds))


def _type(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1:
        kind = type(args[0])
        return type(_LIKE[kind]) if kind in _LIKE else kind
    # The module of a new class is that of the calling frame.
    name, bases, attributes = args
    return type(name, bases, {"__module__": sys._getframe(1).f_globals.get("__name__"), **attributes}, **kwargs)


def _extreme(pythons: Callable[..., Any], of_symbols: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Python's `max` or `min`, which compares, and so branches on which number is larger."""

    def result(*args: Any, **kwargs: Any) -> Any:
        numbers = args[0] if len(args) == 1 and type(args[0]) in (tuple, list, torch.Size) else args
        kinds = set(map(type, numbers))
        is_symbolic = not kinds.isdisjoint(_LIKE) and (kinds <= _INTEGERS or kinds <= _REALS)
        return functools.reduce(of_symbols, numbers) if is_symbolic and not kwargs else pythons(*args, **kwargs)

    return result


def _divmod(number: Any, divisor: Any, /) -> Any:
    is_symbolic = type(number) in _LIKE or type(divisor) in _LIKE
    return (number // divisor, number % divisor) if is_symbolic else divmod(number, divisor)


#: Numbers of Python that are instances of the same types as symbolic ones are to be.
_LIKE: dict[type, Any] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
_INTEGERS, _REALS = frozenset({int, torch.SymInt}), frozenset({float, torch.SymFloat})
_OURS: dict[str, Callable[..., Any]] = {
    "int": _int,
    "float": _float,
    "len": _len,
    "isinstance": _isinstance,
    "type": _type,
    "max": _extreme(max, torch.sym_max),
    "min": _extreme(min, torch.sym_min),
    "divmod": _divmod,
}
#: The names of the functions for which there are others.
NAMES = frozenset(_OURS)
_LOAD_GLOBAL, _LOAD_CONST, _PUSH_NULL = opmap["LOAD_GLOBAL"], opmap["LOAD_CONST"], opmap["PUSH_NULL"]
_EXTENDED_ARG, _CACHE, _NOP = opmap["EXTENDED_ARG"], opmap["CACHE"], opmap["NOP"]
#: Whether the NULL that is pushed with what is called lies above it.
_NULL_IS_ABOVE = sys.version_info >= (3, 13)


@dataclass(slots=True)
class _Exchange:
    own: CodeType
    ours: CodeType
    users: int = 0


_lock = threading.Lock()
_exchanges: dict[FunctionType, _Exchange] = {}
#: By function: its code, the names that are exchanged in it, and what it is exchanged for.
_known: WeakKeyDictionary[FunctionType, tuple[CodeType, frozenset[str], CodeType | None]] = WeakKeyDictionary()


@contextmanager
def calls_with_sizes(functions: Iterable[FunctionType]) -> Iterator[None]:
    """Within, these functions call the functions of this file in place of Python's."""
    used = []
    try:
        with _lock:
            for function in functions:
                exchange = _exchanges.get(function) or _exchange_for(function)
                if exchange is not None:
                    exchange.users += 1
                    used.append(function)
        yield
    finally:
        with _lock:
            for function in used:
                exchange = _exchanges[function]
                exchange.users -= 1
                if not exchange.users:
                    del _exchanges[function]
                    if function.__code__ is exchange.ours:
                        function.__code__ = exchange.own


def _exchange_for(function: FunctionType) -> _Exchange | None:
    own = function.__code__
    # A file may have functions of its own of these names.
    meant = NAMES.difference(function.__globals__)
    known = _known.get(function)
    if known is None or known[0] is not own or known[1] != meant:
        known = _known[function] = own, meant, _code_for(own, meant)
    ours = known[2]
    if ours is None:
        return None
    function.__code__ = ours
    exchange = _exchanges[function] = _Exchange(own, ours)
    return exchange


def _code_for(code: CodeType, meant: frozenset[str]) -> CodeType | None:
    try:
        return _with_ours(code, code.co_filename, meant)
    except TypeError:  # A compiler has made code with constants that have no hash. It calls Python's functions.
        return None


@functools.lru_cache(20_000)
def _with_ours(code: CodeType, file: str, meant: frozenset[str]) -> CodeType | None:
    """The code of a function that calls ours in place of Python's functions of these names; None if it calls none.

    A load of a global that is called becomes one of a constant, in as many bytes, so that no line and no jump moves.
    Equal code may be that of another file.
    """
    inner = [_with_ours(const, file, meant) if type(const) is CodeType else None for const in code.co_consts]
    consts = [own if ours is None else ours for own, ours in zip(code.co_consts, inner, strict=True)]
    changed = bytearray(code.co_code)
    if not meant.isdisjoint(code.co_names):
        start = argument = 0
        while start < len(changed):
            at = start
            while changed[at] == _EXTENDED_ARG:
                argument = (argument | changed[at + 1]) << 8
                at += 2
            argument |= changed[at + 1]
            end = at + 2
            while end < len(changed) and changed[end] == _CACHE:
                end += 2
            if changed[at] == _LOAD_GLOBAL and argument & 1 and (name := code.co_names[argument >> 1]) in meant:
                consts.append(_OURS[name])
                changed[start:end] = _load_of(len(consts) - 1, end - start)
            start, argument = end, 0
    if len(consts) == len(inner) and not any(inner):
        return None
    return code.replace(co_code=bytes(changed), co_consts=tuple(consts))


def _load_of(const: int, size: int) -> bytes:
    """The instructions that load a constant to be called, in so many bytes."""
    load = bytes([_EXTENDED_ARG, const >> 8, _LOAD_CONST, const & 255])
    null = bytes([_PUSH_NULL, 0])
    whole = load + null if _NULL_IS_ABOVE else null + load
    return whole + bytes([_NOP, 0]) * ((size - len(whole)) // 2)
