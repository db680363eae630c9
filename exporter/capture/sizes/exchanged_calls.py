"""Calls of Python's functions in a program, exchanged for calls of those that take dynamic sizes too.

They are exchanged in the code of the program's functions, so that all other code goes on calling Python's. Aliases of
these functions are left alone.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from opcode import opmap
from types import CodeType, FunctionType
from weakref import WeakKeyDictionary

import msgspec

from onnx_parity.exporter.capture.sizes.python_functions import WITH_SIZES

__all__ = ["NAMES", "calls_with_sizes"]

#: The names of the functions for which there are others.
NAMES = frozenset(WITH_SIZES)
_LOAD_GLOBAL, _LOAD_CONST, _PUSH_NULL = opmap["LOAD_GLOBAL"], opmap["LOAD_CONST"], opmap["PUSH_NULL"]
_EXTENDED_ARG, _CACHE, _NOP = opmap["EXTENDED_ARG"], opmap["CACHE"], opmap["NOP"]
#: Whether the NULL that is pushed with what is called lies above it.
_NULL_IS_ABOVE = sys.version_info >= (3, 13)


class _Exchange(msgspec.Struct):
    own: CodeType
    ours: CodeType
    users: int = 0


_lock = threading.Lock()
_exchanges: dict[FunctionType, _Exchange] = {}
#: By function: its code, the names that are exchanged in it, and what it is exchanged for.
_known: WeakKeyDictionary[FunctionType, tuple[CodeType, frozenset[str], CodeType | None]] = WeakKeyDictionary()


@contextmanager
def calls_with_sizes(functions: Iterable[FunctionType]) -> Iterator[None]:
    """Within, these functions call those of `python_functions.py` in place of Python's."""
    used = []
    try:
        with _lock:
            for function in functions:
                exchange = _exchanges.get(function) or _exchange(function)
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


def _exchange(function: FunctionType) -> _Exchange | None:
    """Give a function code that calls ours, if its own calls one of Python's."""
    own = function.__code__
    # A file may have functions of its own of these names.
    meant = NAMES.difference(function.__globals__)
    known = _known.get(function)
    if known is None or known[0] is not own or known[1] != meant:
        known = _known[function] = own, meant, _ours_or_none(own, meant)
    ours = known[2]
    if ours is None:
        return None
    function.__code__ = ours
    exchange = _exchanges[function] = _Exchange(own, ours)
    return exchange


def _ours_or_none(code: CodeType, meant: frozenset[str]) -> CodeType | None:
    if not _names_one(code, meant):
        return None
    try:
        hash(code)
    except TypeError:  # A compiler has made code with constants that have no hash. It calls Python's functions.
        return None
    return _with_ours(code, code.co_filename, meant)


def _names_one(code: CodeType, meant: frozenset[str]) -> bool:
    """Whether code, or what is defined in it, uses one of the names."""
    if not meant.isdisjoint(code.co_names):
        return True
    return any(type(const) is CodeType and _names_one(const, meant) for const in code.co_consts)


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
        for start, end, argument in _loads_of_globals(code.co_code):
            # The lowest bit tells that the global is loaded to be called. The others are the number of its name.
            if argument & 1 and (name := code.co_names[argument >> 1]) in meant:
                consts.append(WITH_SIZES[name])
                changed[start:end] = _loading(len(consts) - 1, end - start)
    if len(consts) == len(inner) and not any(inner):
        return None
    return code.replace(co_code=bytes(changed), co_consts=tuple(consts))


def _loads_of_globals(instructions: bytes) -> Iterator[tuple[int, int, int]]:
    """Where instructions that load a global start and end, each with its argument."""
    opcodes, arguments = instructions[::2], instructions[1::2]
    at = opcodes.find(_LOAD_GLOBAL)
    while at >= 0:
        start, end, argument = at, at + 1, arguments[at]
        while start and opcodes[start - 1] == _EXTENDED_ARG:
            start -= 1
            argument |= arguments[start] << 8 * (at - start)
        while end < len(opcodes) and opcodes[end] == _CACHE:
            end += 1
        yield 2 * start, 2 * end, argument
        at = opcodes.find(_LOAD_GLOBAL, end)


def _loading(const: int, size: int) -> bytes:
    """The instructions that load a constant to be called, in so many bytes."""
    load = bytes([_EXTENDED_ARG, const >> 8, _LOAD_CONST, const & 255])
    null = bytes([_PUSH_NULL, 0])
    whole = load + null if _NULL_IS_ABOVE else null + load
    return whole + bytes([_NOP, 0]) * ((size - len(whole)) // 2)
