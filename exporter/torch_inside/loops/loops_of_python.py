"""Loops of Python that are running: whether a `for` or a `while` asks, and the variables that its body carries."""

from __future__ import annotations

import ctypes
import dis
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from opcode import opmap
from types import CodeType, FrameType, GeneratorType
from typing import Any, NamedTuple, TypeVar

from onnx_parity.exporter.torch_inside.frames import asked_for_caller

__all__ = [
    "LoopTest", "assign", "begins_loop_to_leave", "carried_names", "frames_of_loop", "is_at_loop",
    "is_in_comprehension", "is_in_for", "is_in_unpacking", "iterated", "number_unpacked", "place_in", "test_of_call",
    "test_of_loop", "variables_of",
]  # fmt: skip

_Found = TypeVar("_Found")
_FOR_ITER, _GET_ITER, _CACHE = opmap["FOR_ITER"], opmap["GET_ITER"], opmap["CACHE"]
_UNPACK_SEQUENCE = opmap["UNPACK_SEQUENCE"]
#: The instructions that put all items of something into a list that is being written down, as `[a, *b]` does.
_UNPACKING = frozenset(opmap[name] for name in ("LIST_EXTEND", "SET_UPDATE") if name in opmap)
#: What puts an item into the container of a comprehension.
_FILLING = frozenset({"LIST_APPEND", "SET_ADD", "MAP_ADD"})
_WITH_KEYS = frozenset({"<dictcomp>", "<setcomp>"})
_ENDING = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPING = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_BACKWARD = frozenset(operation for operation in _JUMPS if "BACKWARD" in dis.opname[operation])
#: What code does to leave a loop, besides jumping: it drops the iterator.
_DROPPING = frozenset({"NOP", "POP_TOP", "POP_ITER", "END_FOR", "CACHE"})
#: What makes the truth value of what a test asks: from Python 3.13 on, it is made before the test.
_MAKING_TRUTH = frozenset({"TO_BOOL", "COMPARE_OP"} if sys.version_info >= (3, 13) else ())
#: Ends of functions of fewer instructions are compared.
_LONGEST_END = 30


def reached(frame: FrameType) -> int:
    """The place of the instruction in its code that a frame has reached. Where a `for` asks a generator, Python may say
    the place behind it."""
    place = frame.f_lasti
    while frame.f_code.co_code[place] == _CACHE:
        place -= 2
    return place


def is_in_for(frame: FrameType) -> bool:
    """Whether a frame is at the head of a `for`, whose iterator is asked for the next item."""
    return frame.f_code.co_code[reached(frame)] == _FOR_ITER


def is_at_loop(frame: FrameType, own: Collection[CodeType]) -> bool:
    """Whether the program asks for the iterator of a loop that it is to run, or that an inner function is: on the stack
    that ends in a frame, without what asks on behalf of its caller, but for code of our own."""
    while asked_for_caller(frame.f_code) and frame.f_code not in own and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_code[frame.f_lasti] == _GET_ITER


def place_in(frame: FrameType) -> tuple[int, int]:
    """The identity of a frame, and the place in its code that it has reached."""
    return id(frame), reached(frame)


def frames_of_loop(frame: FrameType) -> list[FrameType]:
    """A frame that runs a loop; if it is a generator's, also the frame whose loop asks that for the next item. None if
    something else than a loop asks, or one that fills a dict or a set, which has a key for each item."""
    if frame.f_code.co_name in _WITH_KEYS:
        return []
    frames = [frame]
    while frame.f_code.co_flags & inspect.CO_GENERATOR:
        asking = frame.f_back
        if asking is None or not is_in_for(asking):
            return []
        frame = asking
        frames.append(frame)
    return frames


def is_in_comprehension(frame: FrameType) -> bool:
    """Whether the loop at whose head a frame is fills a list below its iterator, which no variable has. Before Python
    3.12, a comprehension is a function, which is given what its first loop goes over."""
    code, head = frame.f_code, reached(frame)
    steps = {step.offset: step for step in dis.get_instructions(code)}
    if head not in steps or not any(step.opname in _FILLING for step in steps.values()):
        return False
    loops = [(step.offset, int(step.argval)) for step in steps.values() if step.opcode == _FOR_ITER]
    end = dict(loops)[head]
    for step in steps.values():
        if step.opname in _FILLING and head < step.offset < end:
            # Each loop between the head and this, with the head, has an iterator above the container.
            nested = sum(head <= begin < step.offset < last for begin, last in loops)
            if (step.arg or 0) > nested:
                return True
    return False


def iterated(value: object) -> Any:
    """What a generator expression goes over; None of anything else."""
    if not isinstance(value, GeneratorType) or value.gi_frame is None:
        return None
    return value.gi_frame.f_locals.get(".0")


def is_in_unpacking(frame: FrameType) -> bool:
    """Whether a frame is at the `*b` of `[a, *b]`."""
    return frame.f_code.co_code[frame.f_lasti] in _UNPACKING


def number_unpacked(frame: FrameType) -> int | None:
    """How many variables a frame assigns the items of something to, as `a, b = items` does; None if it does not."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at + 1] if code[at] == _UNPACK_SEQUENCE else None


class LoopTest(NamedTuple):
    """A place in code that leaves a loop with one answer to what it asks, and stays in it with the other."""

    #: The same for all tests of a loop.
    loop: int
    #: The same for the copies of a test: Python asks the condition of a `while` before the loop, and after its body.
    test: int
    #: The answer with which the code stays in the loop.
    stays: bool
    #: Whether each iteration asks it.
    is_head: bool
    #: Whether the loop is a `for`, whose iterator is asked first.
    is_in_for: bool
    #: What the code does once it has left the loop: the same for tests that leave it for the same place.
    leaves_for: tuple[object, ...]


def test_of_loop(frame: FrameType) -> LoopTest | None:
    """The test by which a frame that asks a condition, or an iterator for the next item, may leave the innermost loop
    that it runs; None if it asks something else."""
    return _known(frame.f_code, _tests, _tests_of_loops).get(reached(frame))


def test_of_call(frame: FrameType) -> LoopTest | None:
    """The same for a frame that calls what returns the truth value that is then tested."""
    return _known(frame.f_code, _tests, _tests_of_loops).get(_behind(frame))


def _behind(frame: FrameType) -> int:
    """The place of the instruction that follows a call in a frame."""
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while code[at] == _CACHE:
        at += 2
    return at


def begins_loop_to_leave(frame: FrameType) -> bool:
    """Whether a call in a frame gives what a `for` goes over, whose body may leave it by what it asks."""
    code, at = frame.f_code, _behind(frame)
    if code.co_code[at] != _GET_ITER:
        return False
    heads = [place for place in range(at, len(code.co_code), 2) if code.co_code[place] == _FOR_ITER]
    tests = _known(code, _tests, _tests_of_loops)
    loop = tests[heads[0]].loop if heads and heads[0] in tests else None
    return any(test.loop == loop and place != heads[0] for place, test in tests.items())


#: What has been found in code, by its identity, with the code itself: constants in it may have no hash.
_tests: dict[int, tuple[CodeType, dict[int, LoopTest]]] = {}
_lives: dict[int, tuple[CodeType, dict[int, frozenset[str]]]] = {}
_MOST = 1000


def _known(code: CodeType, known: dict[int, tuple[CodeType, _Found]], find: Callable[[CodeType], _Found]) -> _Found:
    found = known.get(id(code))
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        found = known[id(code)] = code, find(code)
    return found[1]


def _tests_of_loops(code: CodeType) -> dict[int, LoopTest]:
    """The tests by which code may leave its loops, by their places.

    Copies of a test are taken for one, which makes each loop one that is entered at one place. The loop consists of all
    from which the jumps back to that place are reached without passing it.
    """
    if _BACKWARD.isdisjoint(code.co_code[::2]):
        return {}  # It takes 8 ms for F.interpolate, which has no loop.
    # From Python 3.14 on, a note stands behind each jump.
    steps = [step for step in dis.get_instructions(code) if step.opname != "NOT_TAKEN"]
    places = {step.offset: number for number, step in enumerate(steps)}
    nodes, known = [*range(len(steps))], dict[object, int]()
    asking = [number for number, step in enumerate(steps) if _is_test(step)]
    for number in asking:
        if steps[number].opcode != _FOR_ITER:
            first = known.setdefault(_spelled(steps, number), number)
            for before in range(_common(steps, first, number)):
                nodes[number - before] = first - before
    after: dict[int, set[int]] = {number: set() for number in nodes}
    sides: dict[int, tuple[int | None, int | None]] = {}
    for number, step in enumerate(steps):
        target = places.get(step.argval) if step.opcode in _JUMPS else None
        falls = step.opname not in _ENDING and step.opname not in _JUMPING and number + 1 < len(steps)
        sides[number] = target, number + 1 if falls else None
        after[nodes[number]] |= {nodes[side] for side in sides[number] if side is not None}
    loops = _loops_in(after)
    found: dict[int, LoopTest] = {}
    for number in asking:
        around = [head for head, (inside, _) in loops.items() if nodes[number] in inside]
        jumps, goes_on = sides[number]
        if not around or jumps is None or goes_on is None:
            continue
        head = min(around, key=lambda head: len(loops[head][0]))
        inside, ends = loops[head]
        if (nodes[jumps] in inside) == (nodes[goes_on] in inside):
            continue
        stays_by_jump = nodes[jumps] in inside
        stays = steps[number].opcode == _FOR_ITER or stays_by_jump == steps[number].opname.endswith("TRUE")
        is_head = _is_passed(nodes[number], head, ends, after, inside)
        leaves_for = _leaving(steps, places, goes_on if stays_by_jump else jumps)
        test = LoopTest(head, nodes[number], stays, is_head, steps[head].opcode == _FOR_ITER, leaves_for)
        found[steps[number].offset] = test
        if steps[number - 1].opname in _MAKING_TRUTH:
            found[steps[number - 1].offset] = test
    return found


def _is_test(step: dis.Instruction) -> bool:
    return step.opcode == _FOR_ITER or (step.opname.startswith("POP_JUMP") and "NONE" not in step.opname)


def _spelled(steps: Sequence[dis.Instruction], number: int) -> tuple[object, ...]:
    """Where a test, and what it tests, is written in the program: the same for its copies."""
    before = [(step.opname, step.positions) for step in steps[max(0, number - 3) : number] if step.opname != "TO_BOOL"]
    # Of `0 <= i <= n` only the second operands are written elsewhere.
    tested = before[-2:] if before[-1:] and before[-1][0] == "COMPARE_OP" else before[-1:]
    return steps[number].positions, *tested


def _common(steps: Sequence[dis.Instruction], first: int, other: int) -> int:
    """How many instructions that end with a test are those that end with a copy of it."""
    count = 1
    while count <= first < other and all(
        getattr(steps[first - count], name) == getattr(steps[other - count], name) for name in ("opname", "positions")
    ):
        count += 1
    return count


def _loops_in(after: Mapping[int, set[int]]) -> dict[int, tuple[set[int], set[int]]]:
    """The loops, by where they are entered: all that is inside, and from where they jump back."""
    ends: dict[int, set[int]] = {}
    # On the way from the beginning: what is left to be seen behind each.
    way, seen = [(0, iter(after[0]))], {0}
    on_way = {0}
    while way:
        at, left = way[-1]
        to = next(left, None)
        if to is None:
            way.pop()
            on_way.discard(at)
        elif to in on_way:
            ends.setdefault(to, set()).add(at)
        elif to not in seen:
            seen.add(to)
            on_way.add(to)
            way.append((to, iter(after[to])))
    before: dict[int, set[int]] = {}
    for at, following in after.items():
        for to in following:
            before.setdefault(to, set()).add(at)
    return {head: (_reaching(head, jumping, before) & seen, jumping) for head, jumping in ends.items()}


def _reaching(head: int, ends: set[int], before: Mapping[int, set[int]]) -> set[int]:
    """All from which one of the ends is reached without passing the head, with the head."""
    found, waiting = {head}, [*ends]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += before.get(at, ())
    return found


def _is_passed(test: int, head: int, ends: set[int], after: Mapping[int, set[int]], inside: set[int]) -> bool:
    """Whether each way through a loop passes a test."""
    waiting, seen = [head], {test}
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += after[at] & inside
    return ends.isdisjoint(seen - {test})


def _leaving(steps: Sequence[dis.Instruction], places: Mapping[int, int], at: int) -> tuple[object, ...]:
    """What code does from a place on: the steps until it returns, of which Python makes copies, or where it goes."""
    begins: int | None = None
    done: list[tuple[object, object]] = []
    while len(done) < _LONGEST_END:
        step = steps[at]
        if step.opname == "JUMP_FORWARD":
            at = places[step.argval]
            continue
        drops = step.opname in _DROPPING or (step.opname == "SWAP" and steps[at + 1].opname == "POP_TOP")
        at += 1
        if drops and not done:
            continue
        begins = step.offset if begins is None else begins
        if step.opcode in _JUMPS or step.opname == "RERAISE":
            break
        if not (drops and _returns_next(steps, at)):
            done.append((step.opname, step.argval))
        if step.opname in _ENDING:
            return tuple(done)
    return (begins,)


def _returns_next(steps: Sequence[dis.Instruction], at: int) -> bool:
    return [step.opname for step in steps[at : at + 2] if step.opname != "POP_TOP"][:1] == ["RETURN_VALUE"]


def carried_names(frame: FrameType) -> frozenset[str]:
    """The variables whose values at the head of a loop are read later: in an iteration, or after the loop. Those that
    an inner function may read are among them."""
    code = frame.f_code
    return _known(code, _lives, _live)[reached(frame)] | {*code.co_cellvars, *code.co_freevars}


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
