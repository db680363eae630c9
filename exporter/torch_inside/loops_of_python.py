"""Loops of Python that are running: whether a `for` or a `while` asks, and the variables that its body carries."""

from __future__ import annotations

import ctypes
import dis
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from opcode import opmap
from types import CodeType, FrameType, GeneratorType
from typing import Any, TypeVar

__all__ = [
    "assign", "body_of_while", "carried_names", "frames_of_loop", "is_in_for", "is_in_unpacking", "iterated",
    "variables_of",
]  # fmt: skip

_Found = TypeVar("_Found")
_FOR_ITER = opmap["FOR_ITER"]
#: The instructions that put all items of something into a list that is being written down, as `[a, *b]` does.
_UNPACKING = frozenset(opmap[name] for name in ("LIST_EXTEND", "SET_UPDATE") if name in opmap)
_ENDING = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPING = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})


def is_in_for(frame: FrameType) -> bool:
    """Whether a frame is at the head of a `for`, whose iterator is asked for the next item."""
    return frame.f_code.co_code[frame.f_lasti] == _FOR_ITER


def frames_of_loop(frame: FrameType) -> list[FrameType]:
    """A frame that runs a loop; if it is a generator's, also the frame whose loop asks that for the next item. None if
    something else than a loop asks."""
    frames = [frame]
    while frame.f_code.co_flags & inspect.CO_GENERATOR:
        asking = frame.f_back
        if asking is None or not is_in_for(asking):
            return []
        frame = asking
        frames.append(frame)
    return frames


def iterated(value: object) -> Any:
    """What a generator expression goes over; None of anything else."""
    if not isinstance(value, GeneratorType) or value.gi_frame is None:
        return None
    return value.gi_frame.f_locals.get(".0")


def is_in_unpacking(frame: FrameType) -> bool:
    """Whether a frame is at the `*b` of `[a, *b]`."""
    return frame.f_code.co_code[frame.f_lasti] in _UNPACKING


def body_of_while(frame: FrameType) -> int | None:
    """Where the body of a `while` begins whose condition a frame asks, for the first time or again; None if it asks
    something else, or if the condition has several parts."""
    return _known(frame.f_code, _tests, _tests_of_while).get(frame.f_lasti)


#: What has been found in code, by its identity, with the code itself: constants in it may have no hash.
_tests: dict[int, tuple[CodeType, dict[int, int]]] = {}
_lives: dict[int, tuple[CodeType, dict[int, frozenset[str]]]] = {}
_MOST = 1000


def _known(code: CodeType, known: dict[int, tuple[CodeType, _Found]], find: Callable[[CodeType], _Found]) -> _Found:
    found = known.get(id(code))
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        found = known[id(code)] = code, find(code)
    return found[1]


def _tests_of_while(code: CodeType) -> dict[int, int]:
    """Where code asks conditions of `while`, each with the place at which its body begins.

    Python asks at the head of the loop, and again after the body. The second place jumps back to behind the first one,
    and both leave the loop for the same place; a `continue` jumps elsewhere. From 3.14 on, it asks at the head alone.
    """
    # From Python 3.14 on, a note stands behind each jump.
    steps = [step for step in dis.get_instructions(code) if step.opname != "NOT_TAKEN"]
    tests: dict[int, int] = {}
    #: By the places after tests, where these tests jump to, and which they are.
    heads: dict[int, tuple[int, dis.Instruction, dis.Instruction]] = {}
    for before, step, after in zip(steps, steps[1:], steps[2:], strict=False):
        if not step.opname.startswith("POP_JUMP") or "NONE" in step.opname:
            continue
        if step.argval <= step.offset:
            body, end = step.argval if step.opname.endswith("TRUE") else None, after.offset
        elif step.opname.endswith("FALSE"):
            body, end = after.argval if after.opname == "JUMP_BACKWARD" else None, step.argval
            heads[after.offset] = end, before, step
        else:
            continue
        if body in heads and heads[body][0] == end:
            for asking, test in (heads[body][1:], (before, step)):
                tests[test.offset] = tests[asking.offset if asking.opname == "TO_BOOL" else test.offset] = body
    return tests | _tests_at_heads(steps) if sys.version_info >= (3, 14) else tests


def _tests_at_heads(steps: Sequence[dis.Instruction]) -> dict[int, int]:
    last = {step.argval: step.offset for step in steps if step.opname == "JUMP_BACKWARD"}
    tests: dict[int, int] = {}
    for head, end in last.items():
        inside = [number for number, step in enumerate(steps) if step.offset >= head]
        if steps[inside[0]].opcode == _FOR_ITER:
            continue
        at = next(number for number in inside if "JUMP" in steps[number].opname)
        before, step, after = steps[at - 1 : at + 2]
        if step.opname == "POP_JUMP_IF_FALSE" and step.argval > end:
            tests[step.offset] = tests[before.offset if before.opname == "TO_BOOL" else step.offset] = after.offset
    return tests


def carried_names(frame: FrameType) -> frozenset[str]:
    """The variables whose values at the head of a loop are read later: in an iteration, or after the loop. Those that
    an inner function may read are among them."""
    code = frame.f_code
    return _known(code, _lives, _live)[frame.f_lasti] | {*code.co_cellvars, *code.co_freevars}


def variables_of(frame: FrameType) -> Mapping[str, Any]:
    """The variables of a frame, with their values now."""
    return dict(frame.f_locals)


def assign(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Assign to variables of a frame."""
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):
        # Until then `f_locals` is a copy.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _live(code: CodeType) -> dict[int, frozenset[str]]:
    """For each instruction of code, by its place, the variables that are read after it before they are assigned to."""
    steps = list(dis.get_instructions(code))
    places = {step.offset: number for number, step in enumerate(steps)}
    live: list[frozenset[str]] = [frozenset()] * len(steps)
    has_changed = True
    while has_changed:
        has_changed = False
        for number in range(len(steps) - 1, -1, -1):
            step = steps[number]
            after: frozenset[str] = frozenset()
            if step.opcode in _JUMPS:
                after |= live[places[step.argval]]
            if step.opname not in _ENDING and step.opname not in _JUMPING and number + 1 < len(steps):
                after |= live[number + 1]
            for stores, name in reversed(_accesses(step)):
                after = after - {name} if stores else after | {name}
            if after != live[number]:
                live[number], has_changed = after, True
    return {step.offset: names for step, names in zip(steps, live, strict=True)}


def _accesses(step: dis.Instruction) -> list[tuple[bool, str]]:
    """The variables that an instruction accesses, in this order, and whether it stores them."""
    if "_FAST" not in step.opname and "DEREF" not in step.opname:
        return []
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    # STORE_FAST_LOAD_FAST names what it does with each of two.
    kinds = [part for part in step.opname.split("_") if part in ("LOAD", "STORE", "DELETE")]
    return [(kind != "LOAD", name) for kind, name in zip(kinds, names, strict=False)]
