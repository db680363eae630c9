"""Branches and loops of a recording: their bodies are recorded apart, into blocks of the graph.

A *leaf* is what a program holds: a tensor, a Python number, None. What differs between two branches, or changes in a
loop, leaves the block as a value of the graph; what stays the same stays what it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor

from exporter.capture.graph import Block, Node, Primitive, Size, Value, same_shape, same_size
from exporter.capture.recorder import NeedsSymbols, Recorder, unwrapped
from exporter.capture.symbols import HintedShapeEnv
from exporter.errors import CaptureError

__all__ = [
    "EMPTY",
    "IF",
    "LOOP",
    "SCAN",
    "SEEN_TWICE",
    "UNSET",
    "Blocks",
    "Iteration",
    "Leaf",
    "is_number",
    "same_leaf",
    "share_memory",
]

IF = Primitive("prim::If")
LOOP = Primitive("prim::Loop")
SCAN = Primitive("higher_order::scan")

#: A tensor, a number, None, `UNSET`, or anything else, which then must not change.
Leaf = Any
#: How often a loop is recorded anew because less is known of what it carries than was taken for granted.
_ATTEMPTS = 12
_COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Equality": torch.eq,
    "Unequality": torch.ne,
    "StrictLessThan": torch.lt,
    "LessThan": torch.le,
    "StrictGreaterThan": torch.gt,
    "GreaterThan": torch.ge,
}
SEEN_TWICE = (
    "a branch or loop writes in place to a tensor that has another name, or a view, around it: write to a clone of it"
)
_DTYPES = {bool: torch.bool, int: torch.int64, torch.SymInt: torch.int64, float: torch.float64}


@dataclass(frozen=True, slots=True)
class _Absent:
    """In the place of a tensor of which nothing is known yet."""

    said: str


#: What a variable holds on a way on which nothing was assigned to it. Nobody reads it.
UNSET = _Absent("not set")
#: The items of an empty list, in one tensor.
EMPTY = _Absent("an empty list")


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one pass through a loop's body came to."""

    #: Whether there is another one: a truth, or a tensor of one.
    going: Leaf
    carried: Sequence[Leaf]
    #: Tensors of which those of all iterations are wanted, stacked.
    collected: Sequence[torch.Tensor] = ()


#: A loop's body, given the number of the iteration, what is carried, and the shared tensors.
_Body = Callable[[torch.Tensor, Sequence[Leaf], Sequence[torch.Tensor]], Iteration]


@dataclass(frozen=True, slots=True)
class _Shared:
    """One of the tensors that a block shares with what is outside of it."""

    place: int


@dataclass(slots=True)
class _Carried:
    """One leaf that a loop hands from each iteration to the next, and what is known of it in all of them."""

    start: Leaf
    varies: bool
    #: The axes whose size is another in each iteration.
    free: set[int] = field(default_factory=set)
    inside: Leaf = None
    #: Which of the shared tensors it is.
    shared: int | None = None
    #: Whether the body writes in place to what it is given.
    written: bool = False


class Blocks:
    """Records branches and loops into the graph of a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    # --- branches -------------------------------------------------------------------------------------------------

    def branch(
        self,
        condition: torch.Tensor,
        then: Callable[[Sequence[torch.Tensor]], Any],
        orelse: Callable[[Sequence[torch.Tensor]], Any],
        shared: Sequence[torch.Tensor] = (),
        flatten: Callable[[Any, Any], Callable[[Any], Sequence[Leaf]]] | None = None,
    ) -> list[Leaf]:
        """Record both ways; give what either returns, one by one.

        The `shared` tensors are handed to both: what a way writes to them is written to them afterwards. `flatten` is
        asked, once both results are known, how to take them apart.
        """
        asked = self.recorder.value_of(self.take(condition))
        inner = self._settled(shared)
        ways: list[tuple[Any, list[torch.Tensor], list[Node]]] = []
        for way in (then, orelse):
            with self.recorder.block() as nodes:
                own = [self.give(tensor) for tensor in inner]
                ways.append((way(own), own, nodes))
        taken_apart = flatten(ways[0][0], ways[1][0]) if flatten is not None else list
        sides: list[tuple[list[Leaf], list[Leaf]]] = []
        for result, own, nodes in ways:
            with self.recorder.block(nodes):
                # What is one of the shared tensors is that afterwards, not another of the same value.
                places = {id(tensor): _Shared(place) for place, tensor in enumerate(own)}
                leaves = [places.get(id(leaf), leaf) for leaf in taken_apart(result)] + own
                settled = self._settled(leaves)
            sides.append((leaves, settled))
        (returned, ones), (_, others) = sides
        then_nodes, else_nodes = ways[0][2], ways[1][2]
        if len(ones) != len(others):
            counts = [len(each) - len(shared) for each in (ones, others)]
            raise self.error(f"one branch returns {counts[0]} values and the other {counts[1]}")
        results: list[Leaf] = []
        made: list[FakeTensor] = []
        then_ends: list[Value] = []
        else_ends: list[Value] = []
        for original, one, other in zip(returned, ones, others, strict=True):
            if same_leaf(one, other):
                results.append(shared[one.place] if isinstance(one, _Shared) else original)
                continue
            one, other = (
                self.take(own[leaf.place]) if isinstance(leaf, _Shared) else leaf
                for leaf, (_, own, _) in zip((one, other), ways, strict=True)
            )
            with self.recorder.block(then_nodes):
                a = self.tensor(one, other)
            with self.recorder.block(else_nodes):
                b = self.tensor(other, a)
            made.append(self._merged(a, b))
            then_ends.append(self.recorder.value_of(a))
            else_ends.append(self.recorder.value_of(b))
            results.append(self.give(made[-1]))
        if made:
            then_block, else_block = Block([], then_nodes, then_ends), Block([], else_nodes, else_ends)
            self.recorder.add(IF, {"condition": asked, "then": then_block, "orelse": else_block}, made)
        count = len(results) - len(shared)
        self._write(shared, inner, results[count:])
        return results[:count]

    def _write(self, tensors: Sequence[torch.Tensor], before: Sequence[Leaf], after: Sequence[Leaf]) -> None:
        """Write to tensors what a block wrote to its own copies of them."""
        for tensor, old, new in zip(tensors, before, after, strict=True):
            if self.take(new) is not old:
                if any(other is not tensor and share_memory(tensor, other) for other in tensors):
                    raise self.error(SEEN_TWICE)
                tensor.copy_(new)

    def _merged(self, one: FakeTensor, other: FakeTensor) -> FakeTensor:
        """What is known of a tensor that is one of two."""
        if one.dtype is not other.dtype:
            raise self.error(f"one branch returns {one.dtype} and the other {other.dtype}: cast one of them")
        if one.ndim != other.ndim:
            raise self.error(
                f"one branch returns a tensor of {one.ndim} axes and the other of {other.ndim}: "
                "ONNX knows the rank of every tensor"
            )
        pairs = zip(one.shape, other.shape, strict=True)
        shape = [size if same_size(size, peer) else self.new_size(size) for size, peer in pairs]
        return self.recorder.stand_in(one.dtype, shape, one.device)

    # --- loops ----------------------------------------------------------------------------------------------------

    def loop(
        self,
        trips: Leaf,
        going: Leaf,
        initial: Sequence[Leaf],
        body: _Body,
        shared: Sequence[torch.Tensor] = (),
        varying: Sequence[bool] | None = None,
    ) -> tuple[list[Leaf], list[torch.Tensor]]:
        """Record a loop of `trips` iterations (None: any number) while `going`. Gives what it carried, at its end, and
        what it collected, stacked.

        The body is recorded with what is known before the first iteration. Where that does not hold for the second,
        less is taken for granted and the body is recorded again. `varying` says what is known to change. The `shared`
        tensors are handed to the body too: what it writes to them is written to them afterwards.
        """
        initial = [*initial, *shared]
        starts = self._settled(initial)
        known = [*(varying or ()), *[False] * len(starts)]
        carried = [_Carried(leaf, varies) for leaf, varies in zip(starts, known, strict=False)]
        places = {id(tensor): place for place, tensor in enumerate(shared)}
        for item, leaf in zip(carried[: len(initial) - len(shared)], initial, strict=False):
            item.shared = places.get(id(leaf))
        for _ in range(_ATTEMPTS):
            before = self.recorder.checkpoint()
            recorded = self._iteration(carried, len(shared), body)
            if recorded is not None:
                break
            self.recorder.restore(before)
        else:
            raise self.error("what the loop carries changes in a new way with each iteration")
        block, goes_on, collected = recorded
        changing = [item for item in carried if item.varies]
        arguments = {
            "trips": None if trips is None else self.value(trips),
            "condition": None if going is True and goes_on is True else self.value(going),
            "initial": [self.value(item.start) for item in changing],
            "block": block,
        }
        ends = [self._at_end(item) for item in changing]
        length = trips if goes_on is True and isinstance(trips, (int, torch.SymInt)) else None
        stacked = [self._stacked(tensor, length) for tensor in collected]
        if ends or stacked:
            self.recorder.add(LOOP, arguments, [*ends, *stacked])
        final = iter(ends)
        results = [self.give(next(final)) if item.varies else leaf for item, leaf in zip(carried, initial, strict=True)]
        count = len(initial) - len(shared)
        self._refuse_seen_twice(carried[:count], initial[:count], shared, results[count:])
        self._write(shared, starts[count:], results[count:])
        return results[:count], [self.give(tensor) for tensor in stacked]

    def _refuse_seen_twice(
        self,
        carried: Sequence[_Carried],
        initial: Sequence[Leaf],
        shared: Sequence[torch.Tensor],
        after: Sequence[Leaf],
    ) -> None:
        """What a body writes in place to one tensor would be seen in another that shares its memory."""
        changed = [tensor for tensor, new in zip(shared, after, strict=True) if self.take(new) is not self.take(tensor)]
        own = [
            leaf
            for item, leaf in zip(carried, initial, strict=True)
            if isinstance(leaf, torch.Tensor) and (item.shared is None or item.varies)
        ]
        for item, leaf in zip(carried, initial, strict=True):
            if item.written:
                changed.append(leaf)
        for tensor in changed:
            if any(other is not tensor and share_memory(tensor, other) for other in (*own, *shared)) or (
                sum(other is tensor for other in (*own, *shared)) > 1
            ):
                raise self.error(SEEN_TWICE)

    def _symbols(self) -> set[str]:
        """The symbols that are known by now."""
        shapes = self.recorder.fakes.shape_env
        hinted = map(str, shapes.hints) if isinstance(shapes, HintedShapeEnv) else ()
        return {*hinted, *self.recorder.size_sources, *self.recorder.reader.scalars}

    def _alike(self, tensor: FakeTensor, outside: set[str]) -> FakeTensor:
        """A tensor that is collected: it has the same sizes in each iteration."""
        for size in tensor.shape:
            if isinstance(size, torch.SymInt) and not {*map(str, size.node.expr.free_symbols)} <= outside:
                raise self.error(
                    "a list collects tensors of other sizes in each iteration of a loop whose length depends on "
                    "values: make them of one size, or join them with torch.cat as they come"
                )
        return tensor

    def _iteration(
        self, carried: list[_Carried], shared: int, body: _Body
    ) -> tuple[Block, Leaf, list[FakeTensor]] | None:
        """The body's block, whether it goes on, and what it collects; None where too much was taken for granted."""
        recorder, outer = self.recorder, self.recorder.nodes
        with recorder.block() as nodes:
            number, going = recorder.stand_in(torch.int64, ()), recorder.stand_in(torch.bool, ())
            for item in carried:
                item.inside = self._inside(item) if item.varies else item.start
            split = len(carried) - shared
            own = [self.give(item.inside) for item in carried[split:]]
            given = [
                self.give(item.inside) if item.varies or item.shared is None else own[item.shared]
                for item in carried[:split]
            ]
            outside = self._symbols()
            done = body(self.give(number), given, own)
            for item, leaf in zip(carried[:split], given, strict=True):
                item.written = item.varies and isinstance(leaf, torch.Tensor) and self.take(leaf) is not item.inside
            outs = self._settled([*done.carried, *own])
            # All of them are asked, so that one more attempt does for all.
            for place, (item, leaf) in enumerate(zip(carried, done.carried, strict=False)):
                if item.shared is not None and leaf is own[item.shared] and not item.varies:
                    outs[place] = item.start
            held = [self._holds(item, out, outer) for item, out in zip(carried, outs, strict=True)]
            if not all(held):
                return None
            goes_on = done.going if done.going is True else self.tensor(self._settled([done.going])[0])
            changing = [
                (item, self.tensor(out, item.inside)) for item, out in zip(carried, outs, strict=True) if item.varies
            ]
            collected = [self._alike(self.take(tensor), outside) for tensor in done.collected]
        inputs = [recorder.value_of(tensor) for tensor in (number, going, *(item.inside for item, _ in changing))]
        tensors = [going if goes_on is True else goes_on, *(out for _, out in changing), *collected]
        return Block(inputs, nodes, [recorder.value_of(tensor) for tensor in tensors]), goes_on, collected

    def _inside(self, item: _Carried) -> FakeTensor:
        start = item.start
        if not isinstance(start, torch.Tensor):
            return self.recorder.stand_in(_DTYPES[type(start)], ())
        shape = [self.new_size(size) if axis in item.free else size for axis, size in enumerate(start.shape)]
        return self.recorder.stand_in(start.dtype, shape, start.device)

    def _holds(self, item: _Carried, out: Leaf, outer: list[Node]) -> bool:
        """Whether what was taken for granted holds after an iteration; from now on, less is."""
        if not item.varies:
            if same_leaf(item.start, out) or out is UNSET:
                return True
            if isinstance(item.start, _Absent):
                with self.recorder.block(outer):
                    item.start = self._anything_like(out, item.start is EMPTY)
            if not (isinstance(item.start, torch.Tensor) or is_number(item.start)):
                raise self.error(f"a variable is {item.start!r} before the loop and {_spelled(out)} after an iteration")
            item.varies = True
            return False
        if isinstance(out, _Absent):
            return True
        inside = item.inside
        dtype, shape = (out.dtype, out.shape) if isinstance(out, torch.Tensor) else (_DTYPES.get(type(out)), ())
        if dtype is not inside.dtype or len(shape) != inside.ndim:
            raise self.error(
                f"a variable is {_spelled(item.start)} before the loop and {_spelled(out)} after an iteration: "
                "ONNX wants one dtype and one number of axes throughout"
            )
        grown = {axis for axis, (a, b) in enumerate(zip(inside.shape, shape, strict=True)) if not same_size(a, b)}
        if grown <= item.free:
            return True
        item.free |= grown
        return False

    def _anything_like(self, leaf: Leaf, empty: bool) -> Leaf:
        """Something of the kind of a leaf, for a variable that nobody reads before it is assigned to."""
        if not isinstance(leaf, torch.Tensor):
            return False if isinstance(leaf, bool) else 0.0 if isinstance(leaf, float) else 0
        shape: list[Size] = [0, *leaf.shape[1:]] if empty else [*leaf.shape]
        with self._innermost():
            return torch.zeros([size if isinstance(size, int) else 0 for size in shape], dtype=leaf.dtype)

    def _at_end(self, item: _Carried) -> FakeTensor:
        inside = item.inside
        shape = [self.new_size(size) if axis in item.free else size for axis, size in enumerate(inside.shape)]
        return self.recorder.stand_in(inside.dtype, shape, inside.device)

    def _stacked(self, tensor: FakeTensor, length: Size | None) -> FakeTensor:
        length = self.new_size(2) if length is None else length
        return self.recorder.stand_in(tensor.dtype, [length, *tensor.shape], tensor.device)

    # --- scans ----------------------------------------------------------------------------------------------------

    def scan(
        self,
        initial: Sequence[torch.Tensor],
        over: Sequence[torch.Tensor],
        body: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Sequence[torch.Tensor]],
    ) -> list[torch.Tensor]:
        """Record a pass over the first axis of tensors; give what it carries at its end, and the rest, stacked.

        The body takes what is carried and the slices, and returns what is carried and whatever else.
        """
        recorder = self.recorder
        starts, wholes = self._settled(initial), self._settled(over)
        count = wholes[0].shape[0]
        with recorder.block() as nodes:
            carried = [recorder.stand_in(start.dtype, start.shape, start.device) for start in starts]
            slices = [recorder.stand_in(whole.dtype, whole.shape[1:], whole.device) for whole in wholes]
            outs = self._settled(body([*map(self.give, carried)], [*map(self.give, slices)]))
        for start, out in zip(starts, outs, strict=False):
            if start.dtype is not out.dtype or not same_shape(start.shape, out.shape):
                raise self.error(f"scan carries {_spelled(start)}, and its body returns {_spelled(out)} for it")
        block = Block(
            [recorder.value_of(tensor) for tensor in (*carried, *slices)],
            nodes,
            [recorder.value_of(out) for out in outs],
        )
        ends = [recorder.stand_in(start.dtype, start.shape, start.device) for start in starts]
        ends += [self._stacked(out, count) for out in outs[len(starts) :]]
        arguments = {
            "initial": [recorder.value_of(start) for start in starts],
            "over": [recorder.value_of(whole) for whole in wholes],
            "block": block,
        }
        recorder.add(SCAN, arguments, ends)
        return [self.give(end) for end in ends]

    # --- leaves ---------------------------------------------------------------------------------------------------

    def take(self, tensor: torch.Tensor) -> FakeTensor:
        """What the recorder knows a tensor of the program as."""
        tensor = unwrapped(tensor)
        if isinstance(tensor, FakeTensor) and self.recorder.knows(tensor):
            return tensor
        with temporarily_clear_interpreter_stack():
            return self.recorder.constant(tensor)

    def give(self, leaf: Leaf) -> Leaf:
        """A leaf as the program may have it: writes to a tensor are seen."""
        level = torch._C._functorch.maybe_current_level()
        if level is None or not isinstance(leaf, FakeTensor):
            return leaf
        return torch._C._functorch._wrap_functional_tensor(leaf, level)

    def value(self, leaf: Leaf) -> Value:
        return self.recorder.value_of(self.tensor(self._settled([leaf])[0]))

    def tensor(self, leaf: Leaf, like: Leaf = None) -> FakeTensor:
        """A leaf as a tensor; one that is not set, as anything like another."""
        if isinstance(leaf, FakeTensor):
            return leaf
        if isinstance(leaf, _Absent):
            return self.tensor(self._anything_like(like, leaf is EMPTY))
        if not is_number(leaf):
            raise self.error(
                f"a branch or loop makes a variable {_spelled(leaf)} one time and {_spelled(like)} another: "
                "only tensors and numbers can depend on values"
            )
        with self._innermost():
            made = torch.scalar_tensor(leaf, dtype=_DTYPES[type(leaf)])
        assert isinstance(made, FakeTensor)
        return made

    def number(self, tensor: torch.Tensor) -> Any:
        """The number in a tensor of one int, as sizes and indices are given; a symbol where it depends on an input."""
        if self.recorder.fakes.shape_env is None and self.depends_on_input(tensor):
            raise NeedsSymbols
        return tensor.item()

    def depends_on_input(self, tensor: torch.Tensor) -> bool:
        return self.recorder.reader.depends_on_input(self.recorder.value_of(self.take(tensor)))

    def truth(self, leaf: Leaf) -> Leaf:
        """A condition: True, False, or a tensor of one truth."""
        if isinstance(leaf, torch.Tensor):
            return leaf if leaf.dtype is torch.bool else leaf != 0
        if not isinstance(leaf, torch.SymBool):
            return bool(leaf)
        return self._over_sizes(leaf.node.expr)

    def _over_sizes(self, expression: sympy.Basic) -> Leaf:
        """What a statement about sizes that vary is at run time."""
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        name = type(expression).__name__
        if name == "Not":
            return torch.logical_not(self._over_sizes(expression.args[0]))
        if name in ("And", "Or"):
            join = torch.logical_and if name == "And" else torch.logical_or
            return functools.reduce(join, map(self._over_sizes, expression.args))
        shapes = self.recorder.fakes.shape_env
        assert isinstance(shapes, HintedShapeEnv)
        one, other = (self.give(self.tensor(shapes.size_of(side))) for side in expression.args)
        return _COMPARISONS[name](one, other)

    def new_size(self, like: Size) -> torch.SymInt:
        """A size of which nothing is known."""
        shapes = self.recorder.fakes.shape_env
        if not isinstance(shapes, HintedShapeEnv):
            raise NeedsSymbols
        return shapes.unknown_size(like)

    def _settled(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        return [self.take(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def _innermost(self) -> Any:
        """A context in which operators go to the recorder straight away."""
        return temporarily_clear_interpreter_stack()

    def error(self, text: str) -> CaptureError:
        where = self.recorder.origins.find().where
        return CaptureError(f"{text}{f' (at {where})' if where else ''}")


def is_number(leaf: Leaf) -> bool:
    return type(leaf) in _DTYPES


def same_leaf(one: Leaf, other: Leaf) -> bool:
    """Whether two leaves are surely the same."""
    if one is other:
        return True
    if isinstance(one, torch.SymInt) or isinstance(other, torch.SymInt):
        return is_number(one) and is_number(other) and same_size(one, other)
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor) or type(one) is not type(other):
        return False
    return bool(one == other)


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _spelled(leaf: Leaf) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"a {str(leaf.dtype).removeprefix('torch.')} tensor of {leaf.ndim} axes"
    return repr(leaf)
