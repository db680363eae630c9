"""Calls of Python's functions in a program, exchanged for calls of those that take dynamic sizes too.

They are exchanged in the code of the program's functions, so that all other code goes on calling Python's. Aliases of
these functions are left alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from opcode import opmap
from types import CodeType, FunctionType

import msgspec

from onnx_parity.exporter.sizes.python_functions import WITH_SIZES

__all__ = ["NAMES", "calls_with_sizes"]

#: The names of the functions for which there are others.
NAMES = frozenset(WITH_SIZES)
_LOAD_GLOBAL, _LOAD_CONST, _PUSH_NULL = opmap["LOAD_GLOBAL"], opmap["LOAD_CONST"], opmap["PUSH_NULL"]
_EXTENDED_ARG, _NOP, _CACHE = opmap["EXTENDED_ARG"], opmap["NOP"], bytes([opmap["CACHE"]])
#: Whether the NULL that is pushed with what is called lies above it.
_NULL_IS_ABOVE = sys.version_info >= (3, 13)


class _Exchange(msgspec.Struct):
    own: CodeType
    ours: CodeType
    users: int = 0


_lock = threading.Lock()
_exchanges: dict[FunctionType, _Exchange] = {}
#: The most codes for which it is kept what they are exchanged for.
_MOST = 20_000
#: By the identity of code: the code, the names that are exchanged in it, and what it is exchanged for. Its hash would
#: take longer, and where constants have none there is none.
_known: dict[int, tuple[CodeType, frozenset[str], CodeType | None]] = {}


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
    ours = _with_ours(own, NAMES.difference(function.__globals__))
    if ours is None:
        return None
    function.__code__ = ours
    exchange = _exchanges[function] = _Exchange(own, ours)
    return exchange


def _with_ours(code: CodeType, meant: frozenset[str]) -> CodeType | None:
    """The code of a function that calls ours in place of Python's functions of these names; None if it calls none."""
    known = _known.get(id(code))
    if known is None or known[1] != meant:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[id(code)] = code, meant, _exchanged(code, meant)
    return known[2]


def _exchanged(code: CodeType, meant: frozenset[str]) -> CodeType | None:
    """What `_with_ours` keeps for code: the code that calls ours, also in its inner functions, or None.

    A load of a global that is called becomes one of a constant, in as many bytes, so that no line and no jump moves.
    """
    consts = list(code.co_consts)
    is_changed = False
    for at, const in enumerate(code.co_consts):
        if type(const) is CodeType and (inner := _with_ours(const, meant)) is not None:
            consts[at] = inner
            is_changed = True
    called = meant.intersection(code.co_names)
    instructions = code.co_code if called else b""
    changed = bytearray(instructions)
    for name in called:
        loads = _loads_to_call(instructions, code.co_names.index(name))
        if loads:
            consts.append(WITH_SIZES[name])
            is_changed = True
        for start, end in loads:
            changed[start:end] = _loading(len(consts) - 1, end - start)
    if not is_changed:
        return None
    return code.replace(co_code=bytes(changed) if called else code.co_code, co_consts=tuple(consts))


def _loads_to_call(instructions: bytes, number: int) -> list[tuple[int, int]]:
    """Where instructions start and end that load the global whose name has this number, to be called."""
    argument = number << 1 | 1  # The lowest bit tells that it is loaded to be called.
    load = bytes([_LOAD_GLOBAL, argument & 255])
    loads = []
    at = instructions.find(load)
    while at >= 0:
        start, end, whole = at, at + 2, instructions[at + 1]
        # An instruction is two bytes. Those before may give more bits of the argument, eight each.
        while start and instructions[start - 2] == _EXTENDED_ARG:
            start -= 2
            whole |= instructions[start + 1] << 8 * ((at - start) // 2)
        while instructions[end : end + 1] == _CACHE:
            end += 2
        is_instruction = at % 2 == 0  # Otherwise it is an argument and the instruction after it.
        if is_instruction and whole == argument:
            loads.append((start, end))
        at = instructions.find(load, at + 1)
    return loads


def _loading(const: int, size: int) -> bytes:
    """The instructions that load a constant to be called, in so many bytes."""
    load = bytes([_EXTENDED_ARG, const >> 8, _LOAD_CONST, const & 255])
    null = bytes([_PUSH_NULL, 0])
    whole = load + null if _NULL_IS_ABOVE else null + load
    return whole + bytes([_NOP, 0]) * ((size - len(whole)) // 2)
