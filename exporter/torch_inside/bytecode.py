"""Bytecode: which errors code catches, and code in which another function answers `one is other`, or is told of errors.

The latter is code as of `(one, other) in pairs`, and of `error in caught` where a handler of errors begins. That takes
more instructions, so that all after them are moved: the jumps, the table of exception handlers and that of lines are
made anew.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from opcode import opmap
from types import CodeType, FunctionType
from typing import Any

import msgspec

from onnx_parity.exporter.torch_inside.frames import FrameType, asks_for_its_caller, frames_of_user

__all__ = [
    "asking",
    "compares_by_identity",
    "errors_are_caught",
    "handles_errors",
    "is_guard",
    "line_writing",
    "parts_that_catch",
    "tells_flags_apart",
]

asks_for_its_caller(__file__)

_IS, _IN, _PAIR, _CONSTANT = opmap["IS_OP"], opmap["CONTAINS_OP"], opmap["BUILD_TUPLE"], opmap["LOAD_CONST"]
_EXTENDED_ARG, _CACHE, _COPY = opmap["EXTENDED_ARG"], opmap["CACHE"], opmap["COPY"]
#: How a handler of errors begins, and what it does next: leave a `with`, drop the error, or see of which class it is.
_HANDLES, _LEAVES_WITH, _DROPS = opmap["PUSH_EXC_INFO"], opmap["WITH_EXCEPT_START"], opmap["POP_TOP"]
_MATCHES, _RAISES_AGAIN = frozenset({opmap["CHECK_EXC_MATCH"], opmap["CHECK_EG_MATCH"]}), opmap["RERAISE"]
_JUMPS = frozenset(dis.hasjrel)
#: How many bits of an entry's first byte in the table of lines tell where it is, and what says only a line.
_IN_UNITS, _ONLY_A_LINE, _THE_SAME_LINE = 8, 13, 0


_WRITES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_DEREF")
#: What makes an object, and does not write to one that is there.
_MAKING = ("__init__", "__new__", "__post_init__")
#: The most codes for which something is kept.
_MOST = 20_000


class _Instruction(msgspec.Struct):
    """An instruction, with its argument, which several units of two bytes give, and what it is followed by."""

    operation: int
    argument: int
    #: Where it begins and ends in the code that it is of, in units; None for one that is put in.
    begin: int | None
    end: int
    #: How many units Python keeps for itself behind it.
    caches: int = 0
    #: The unit to which it jumps.
    target: int | None = None

    @property
    def units(self) -> int:
        return max(1, (self.argument.bit_length() + 7) // 8) + self.caches

    def encoded(self) -> bytes:
        wide = [_EXTENDED_ARG, 0] * (self.units - self.caches - 1)
        for place in range(len(wide) // 2):
            wide[2 * place + 1] = self.argument >> 8 * (len(wide) // 2 - place) & 255
        return bytes([*wide, self.operation, self.argument & 255]) + bytes([_CACHE, 0]) * self.caches


#: How the names of instructions begin that test a truth value.
_TESTING = ("POP_JUMP", "TO_BOOL")
#: By the identity of code, the code and its parts in which errors are caught.
_catching: dict[int, tuple[CodeType, list[range]]] = {}


def is_guard(frame: FrameType | None, answer: bool, outermost: CodeType) -> bool:
    """Whether the code that tests a truth value now, inside of a call of the outermost code, does so to raise an error
    if it is not this answer, and the user's code does not catch the error."""
    while frame is not None and not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(_TESTING):
        frame = None if frame.f_code is outermost else frame.f_back
    if frame is None or not _raises_otherwise(frame.f_code, frame.f_lasti, answer):
        return False
    return not any(_catches_now(each) for each in (frame, *frames_of_user(frame, outermost)))


@lru_cache(_MOST)
def _raises_otherwise(code: CodeType, at: int, answer: bool) -> bool:
    """Whether code raises an error where a test at this place has not this answer, wherever it goes after it."""
    steps = [step for step in dis.get_instructions(code) if step.offset >= at][:4]
    # From Python 3.13 on, the truth value is made first.
    jump = next((number for number, step in enumerate(steps[:3]) if step.opname.startswith("POP_JUMP")), None)
    if jump is None or "NONE" in steps[jump].opname:
        return False
    jumps_if = steps[jump].opname.endswith("TRUE")
    return _only_raises(code, steps[jump + 1].offset if jumps_if == answer else steps[jump].argval)


def _only_raises(code: CodeType, at: int) -> bool:
    """Whether code raises an error wherever it goes from a place."""
    steps = list(dis.get_instructions(code))
    places = {step.offset: number for number, step in enumerate(steps)}
    waiting, seen = [places[at]], set[int]()
    while waiting:
        number = waiting.pop()
        step = steps[number]
        if step.opname.startswith(("RETURN", "YIELD", "JUMP_BACKWARD", "SEND")):
            return False
        if number in seen or step.opname == "RAISE_VARARGS":
            continue
        seen.add(number)
        if step.opcode in _JUMPS:
            waiting.append(places[step.argval])
        if step.opname not in ("JUMP_FORWARD", "RERAISE"):
            waiting.append(number + 1)
    return True


def tells_flags_apart(frame: FrameType) -> bool:
    """Whether the code of a frame may ask whether something is a bool."""
    return not {"isinstance", "type"}.isdisjoint(frame.f_code.co_names)


def errors_are_caught(frame: FrameType, outermost: CodeType) -> bool:
    """Whether the user's code catches errors that are raised now, inside of a call of the outermost code."""
    return any(map(_catches_now, frames_of_user(frame, outermost)))


def _catches_now(frame: FrameType) -> bool:
    """Whether a frame catches errors that are raised by what it calls now."""
    code = frame.f_code
    if id(code) not in _catching:
        if len(_catching) >= _MOST:
            _catching.clear()
        _catching[id(code)] = code, parts_that_catch(code)
    return any(frame.f_lasti in part for part in _catching[id(code)][1])


def parts_that_catch(code: CodeType) -> list[range]:
    """The parts of code, in bytes, in which an error is caught by an `except` of it that does not only raise another,
    or by `contextlib.suppress`."""
    operations = code.co_code[::2]
    notes = bool(code.co_consts) and type(code.co_consts[-1]) is _Asked
    found = []
    for begin, length, handler, _ in _handlers(code.co_exceptiontable):
        if operations[handler] == _HANDLES:
            end = operations.find(_RAISES_AGAIN, handler)
            first = operations[1 + (operations.find(_DROPS, handler) if notes else handler)]
            catches = first == _DROPS or not _MATCHES.isdisjoint(operations[handler : end if end >= 0 else None])
            catches = catches and not _only_raises(code, 2 * handler)
            if catches or (first == _LEAVES_WITH and "suppress" in code.co_names):
                found.append(range(2 * begin, 2 * (begin + length)))
    return found


def compares_by_identity(code: CodeType) -> bool:
    """Whether `is` compares with anything but None in code."""
    units = code.co_code
    operations = units[::2]
    at = operations.find(_IS)
    while at >= 0:
        if operations[at - 1] != _CONSTANT or code.co_consts[units[2 * at - 1]] is not None:
            return True
        at = operations.find(_IS, at + 1)
    return False


def handles_errors(code: CodeType) -> bool:
    """Whether code has a handler of errors."""
    return bool(code.co_exceptiontable) and _HANDLES in code.co_code[::2]


class _Asked:
    """Contains that for which a function returns True: a pair of objects, or an error."""

    def __init__(self, contains: Callable[..., bool]) -> None:
        self._contains = contains

    def __contains__(self, asked: Any) -> bool:
        return self._contains(*asked) if type(asked) is tuple else self._contains(asked)


def asking(
    code: CodeType, are_identical: Callable[..., bool] | None, note_caught: Callable[..., bool] | None
) -> CodeType:
    """Code that asks `are_identical(one, other)` where it would ask `one is other`, unless the other is None, and that
    calls `note_caught(error)` where it handles an error."""
    before = _instructions_of(code)
    after: list[_Instruction] = []
    consts = code.co_consts
    for each, asks in zip(before, _asked_in(before, consts), strict=True):
        after += _asking(each, len(consts)) if asks and are_identical is not None else [each]
        after += _noting(each, len(consts) + 1) if each.operation == _HANDLES and note_caught is not None else []
    moved = _placed(after)
    return code.replace(
        co_code=b"".join(each.encoded() for each in after),
        co_consts=(*consts, *(each and _Asked(each) for each in (are_identical, note_caught))),
        co_stacksize=code.co_stacksize + 2,
        co_exceptiontable=bytes(_moved_handlers(code.co_exceptiontable, moved)),
        co_linetable=_moved_lines(code.co_linetable, moved),
    )


def _asked_in(instructions: Sequence[_Instruction], constants: Sequence[Any]) -> Iterator[bool]:
    """For each instruction whether it is an `is` with anything but None."""
    yield False
    for before, each in pairwise(instructions):
        is_none = before.operation == _CONSTANT and constants[before.argument] is None
        yield each.operation == _IS and not is_none


def _asking(asked: _Instruction, constant: int) -> list[_Instruction]:
    """The instructions in the place of an `is`, the first where it begins and the others where it ends."""
    caches = _caches_of(_IN)
    return [
        _Instruction(_PAIR, 2, asked.begin, asked.end),
        _Instruction(_CONSTANT, constant, None, asked.end),
        _Instruction(_IN, asked.argument, None, asked.end, caches),
    ]


def _noting(handler: _Instruction, constant: int) -> list[_Instruction]:
    """The instructions behind the one with which a handler begins."""
    added = ((_COPY, 1, 0), (_CONSTANT, constant, 0), (_IN, 0, _caches_of(_IN)), (_DROPS, 0, 0))
    return [_Instruction(operation, argument, None, handler.end, caches) for operation, argument, caches in added]


def _caches_of(operation: int) -> int:
    known = dis._inline_cache_entries  # type: ignore[attr-defined]
    found = known.get(dis.opname[operation], 0) if isinstance(known, dict) else known[operation]
    return int(found)


def _instructions_of(code: CodeType) -> list[_Instruction]:
    found = []
    begin, argument, units = 0, 0, code.co_code
    at = 0
    while at < len(units) // 2:
        operation, low = units[2 * at], units[2 * at + 1]
        argument = argument << 8 | low
        at += 1
        if operation == _EXTENDED_ARG:
            continue
        caches = _caches_of(operation)
        at += caches
        target = None
        if operation in _JUMPS:
            target = at - argument if _is_backward(operation) else at + argument
        found.append(_Instruction(operation, argument, begin, at, caches, target))
        begin, argument = at, 0
    return found


def _is_backward(operation: int) -> bool:
    return "BACKWARD" in dis.opname[operation]


def _placed(instructions: Sequence[_Instruction]) -> list[int]:
    """Where what was at each unit is now, once the jumps have arguments for that."""
    last = instructions[-1].end
    while True:
        moved, place = [-1] * (last + 1), 0
        ends = []
        for each in instructions:
            if each.begin is not None:
                moved[each.begin] = place
            place += each.units
            ends.append(place)
        moved[last] = place
        is_settled = True
        for each, end in zip(instructions, ends, strict=True):
            if each.target is not None:
                distance = abs(moved[each.target] - end)
                is_settled &= distance == each.argument
                each.argument = distance
        if is_settled:
            return moved


def _moved_handlers(table: bytes, moved: Sequence[int]) -> Iterator[int]:
    """The table of exception handlers of code that was moved."""
    for begin, length, handler, depth in _handlers(table):
        yield from _as_bytes(moved[begin], mark=128)
        for number in (moved[begin + length] - moved[begin], moved[handler], depth):
            yield from _as_bytes(number)


def _handlers(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """For each handler where its instructions begin, how many units they are, where the handler begins, its depth."""
    return zip(*[_numbers_in(table)] * 4, strict=True)


def _numbers_in(table: bytes) -> Iterator[int]:
    """Numbers of six bits a byte, the highest first; 64 says that there are more, and 128 marks an entry's first."""
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0


def _as_bytes(number: int, mark: int = 0) -> Iterator[int]:
    places = range((max(1, number.bit_length()) + 5) // 6)
    for place in reversed(places):
        yield (number >> 6 * place & 63) | (64 if place else 0) | mark
        mark = 0


def _moved_lines(table: bytes, moved: Sequence[int]) -> bytes:
    """The table of lines: entries for so many units each, of which those that are longer now are followed by one that
    says the same line."""
    made = bytearray()
    begin = 0
    starts = [at for at, byte in enumerate(table) if byte & 128]
    for at, next_entry in pairwise([*starts, len(table)]):
        end = begin + (table[at] & 7) + 1
        more = _unit_at(moved, end) - _unit_at(moved, begin)
        length = min(more, _IN_UNITS)
        made += bytes([table[at] & ~7 | length - 1]) + table[at + 1 : next_entry]
        while more := more - length:
            length = min(more, _IN_UNITS)
            made += bytes([128 | _ONLY_A_LINE << 3 | length - 1, _THE_SAME_LINE])
        begin = end
    return bytes(made)


def _unit_at(moved: Sequence[int], unit: int) -> int:
    """Where a unit is now, which may lie inside an instruction: as far behind its beginning as before."""
    begin = unit
    while moved[begin] < 0:
        begin -= 1
    return moved[begin] + unit - begin


def line_writing(name: str, functions: Sequence[FunctionType]) -> tuple[str, int]:
    """The file and the line of functions that first writes to an attribute or a variable of a name, or else reads it;
    `"", 0` if there is none."""
    found = "", 0
    for code in [function.__code__ for function in functions]:
        is_meant = code.co_name not in _MAKING and name in (*code.co_names, *code.co_freevars)
        for step in dis.get_instructions(code) if is_meant else ():
            if step.argval == name and step.opname in (*_WRITES, *_READS) and step.positions is not None:
                place = code.co_filename, step.positions.lineno or 0
                if step.opname in _WRITES:
                    return place
                found = found if found[0] else place
    return found
