"""Branches and loops of a recording. Each is one node with a `Block` for each body.

Bodies are recorded separately, and may use values of the surrounding graph. Each body gets its own tensors in place of
those that it may write to; the new values are outputs of the node and are copied back afterwards.

A *leaf* is a tensor, a Python number, or None. A leaf that differs between two branches, or that changes in a loop, is
an output of the block; any other leaf is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import msgspec
import torch

from onnx_parity.exporter.dispatch.gradients import refuse_to_differentiate
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.expression import Symbol
from onnx_parity.exporter.graph.block_primitives import LOOP, SCAN
from onnx_parity.exporter.graph.correspondence import Correspondence
from onnx_parity.exporter.graph.graph import (
    DTYPES,
    Block,
    Holds,
    Node,
    Size,
    same_shape,
    same_size,
)
from onnx_parity.exporter.recording.branches import SEEN_TWICE, Branches
from onnx_parity.exporter.recording.fakes.layouts import common_strides
from onnx_parity.exporter.recording.leaves import (
    EMPTY,
    UNSET,
    Absent,
    Leaf,
    is_number,
    same_leaf,
    share_memory,
    spelled,
)
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["KEPT_ELSEWHERE", "SEEN_TWICE", "Blocks", "Iteration", "UnlikeItems"]

asks_for_its_caller(__file__)


KEPT_ELSEWHERE = (
    "a loop over a dynamic size keeps what changes from one iteration to the next elsewhere than in variables, lists "
    "and attributes, such as in an iterator or in an object within an object: keep it in a variable of the function "
    "that has the loop"
)


class UnlikeItems(CaptureError):
    """The tensors that a loop collects in one place differ in size between iterations, so they cannot be stacked.

    The loop is then recorded again, and collects a list in that place.
    """

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class Iteration(msgspec.Struct, frozen=True):
    """The results of one iteration of a loop's body."""

    #: Whether there is another iteration: True, or a tensor of one bool.
    going: Leaf
    carried: Sequence[Leaf]
    #: Tensors that are collected over all iterations, and stacked.
    collected: Sequence[torch.Tensor] = ()


#: What a loop's body is given: the number of the iteration, the carried leaves, and the shared tensors.
_Given = tuple[torch.Tensor, Sequence[Leaf], Sequence[torch.Tensor]]
#: A loop's body, a function of the number of the iteration, the carried leaves, and the shared tensors.
_Body = Callable[[torch.Tensor, Sequence[Leaf], Sequence[torch.Tensor]], Iteration]


class _Carried(msgspec.Struct):
    """One leaf that a loop carries from each iteration to the next, and the assumptions about it in all iterations."""

    start: Leaf
    varies: bool
    #: The axes whose size differs between iterations.
    free: set[int] = msgspec.field(default_factory=set)
    #: Those of them that may be shorter after an iteration than before.
    shrinking: set[int] = msgspec.field(default_factory=set)
    #: Whether it is a list whose tensors differ in their number of axes.
    of_any_rank: bool = False
    inside: Leaf = None
    #: The leaf as the program has it before the loop, and after an iteration, where it lies in memory otherwise.
    layouts: list[Leaf] = msgspec.field(default_factory=list)
    #: The position among the shared tensors if the leaf is one of them.
    shared: int | None = None
    #: Whether the body writes to it in place.
    written: bool = False


class Blocks(Branches):
    """Records branches and loops into the graph of a recorder."""

    def loop(
        self,
        trips: Leaf,
        going: Leaf,
        initial: Sequence[Leaf],
        body: _Body,
        shared: Sequence[torch.Tensor] = (),
        varying: Sequence[bool] | None = None,
    ) -> tuple[list[Leaf], list[torch.Tensor]]:
        """Record a loop of `trips` iterations (None: any number) while `going`. Returns the carried leaves after the
        last iteration, and the collected tensors, stacked.

        The body is first recorded under the assumption that leaves and sizes are the same in all iterations. If a
        number changes or an axis grows, that assumption is dropped and the body is recorded again. `varying` marks
        leaves that are known to change. The `shared` tensors are passed to the body too, and its writes to them are
        copied back afterwards.
        """
        # Where the body fails, what was recorded of it is put away before the error goes on.
        with closing(self.loop_in_steps(trips, going, initial, shared, varying)) as steps:
            given = next(steps)
            while True:
                try:
                    given = steps.send(body(*given))
                except StopIteration as end:
                    ends: tuple[list[Leaf], list[torch.Tensor]] = end.value
                    return ends

    def loop_in_steps(
        self,
        trips: Leaf,
        going: Leaf,
        initial: Sequence[Leaf],
        shared: Sequence[torch.Tensor] = (),
        varying: Sequence[bool] | None = None,
        *,
        twice: bool = False,
    ) -> Generator[_Given, Iteration, tuple[list[Leaf], list[torch.Tensor]]]:
        """The same for a body that the caller runs: each step has its arguments, and takes its results. With `twice`,
        the body is run once more in the end, and has to compute the same: it may keep what is not carried elsewhere."""
        initial = [*initial, *shared]
        starts = self.settled(initial)
        known = [*(varying or ()), *[False] * len(starts)]
        carried = [_Carried(leaf, varies) for leaf, varies in zip(starts, known, strict=False)]
        places = {id(tensor): place for place, tensor in enumerate(shared)}
        for item, leaf in zip(carried, initial, strict=True):
            item.layouts.append(leaf)
        for item, leaf in zip(carried[: len(initial) - len(shared)], initial, strict=False):
            item.shared = places.get(id(leaf))
        before = self.recorder.checkpoint()
        outside = {*self._symbols_read()}
        first: tuple[Block, list[Symbol]] | None = None
        while (recorded := (yield from self._iteration(carried, len(shared)))) is None or (twice and first is None):
            # Each attempt drops at least one assumption about a variable or an axis, so this loop ends.
            first = None if recorded is None else (recorded[0], self._symbols_read())
            self.recorder.restore(before)
            before = self.recorder.checkpoint()
        if first is not None:
            pairs = zip(first[1], self._symbols_read(), strict=False)
            inside = {one: other for one, other in pairs if one not in outside}
            if not Correspondence(inside).same_block(first[0], recorded[0]):
                raise self.error(KEPT_ELSEWHERE)
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
        self._refuse_derivative("a loop", [*ends, *stacked], initial)
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
        """Refuse a body that writes in place to a tensor that shares memory with another tensor outside of the body."""
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
        """The names of the symbols that exist so far."""
        symbols = self.recorder.fakes.symbols
        hinted = map(str, symbols.hints) if symbols is not None else ()
        return {*hinted, *self.recorder.size_sources, *self.recorder.reader.scalars}

    def _symbols_read(self) -> list[Symbol]:
        """The symbols that can be read from values so far, in the order in which they were made."""
        return [*map(Symbol, (*self.recorder.reader.scalars, *self.recorder.size_sources))]

    def _alike(self, place: int, tensor: FakeTensor, outside: set[str]) -> FakeTensor:
        """Check that a collected tensor has the same sizes in each iteration; raises `UnlikeItems` otherwise."""
        for size in tensor.shape:
            if isinstance(size, torch.SymInt) and not {*map(str, size.node.expr.free_symbols)} <= outside:
                raise UnlikeItems(place)
        return tensor

    def _iteration(
        self, carried: list[_Carried], shared: int
    ) -> Generator[_Given, Iteration, tuple[Block, Leaf, list[FakeTensor]] | None]:
        """Record the body once. Returns its block, whether the loop continues, and the collected tensors; None if an
        assumption turned out to be wrong."""
        recorder, outer, outside = self.recorder, self.recorder.nodes, self._symbols()
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
            done = yield self.give(number), given, own
            for item, leaf in zip(carried[:split], given, strict=True):
                item.written = item.varies and isinstance(leaf, torch.Tensor) and self.take(leaf) is not item.inside
            outs = self.settled([*done.carried, *own])
            # All leaves are checked before the next attempt, so that one attempt more is enough for all that change.
            for place, (item, leaf) in enumerate(zip(carried, done.carried, strict=False)):
                if item.shared is not None and leaf is own[item.shared] and not item.varies:
                    outs[place] = item.start
            confirmed = [self._confirms(item, out, outer) for item, out in zip(carried, outs, strict=True)]
            left = [*done.carried, *own]
            confirmed += [self._confirms_layout(item, leaf) for item, leaf in zip(carried, left, strict=True)]
            if not all(confirmed):
                return None
            varying = [leaf for item, leaf in zip(carried, done.carried, strict=False) if item.varies]
            refuse_to_differentiate("a loop", [*varying, *done.collected])
            goes_on = done.going if done.going is True else self.tensor(self.settled([done.going])[0])
            changing = [
                (item, self.tensor(out, item.inside)) for item, out in zip(carried, outs, strict=True) if item.varies
            ]
            collected = [self._alike(place, self.take(tensor), outside) for place, tensor in enumerate(done.collected)]
        inputs = [recorder.value_of(tensor) for tensor in (number, going, *(item.inside for item, _ in changing))]
        tensors = [going if goes_on is True else goes_on, *(out for _, out in changing), *collected]
        return Block(inputs, nodes, [recorder.value_of(tensor) for tensor in tensors]), goes_on, collected

    def _inside(self, item: _Carried) -> FakeTensor:
        start = item.start
        if not isinstance(start, torch.Tensor):
            return self.recorder.stand_in(DTYPES[type(start)], ())
        shape = [
            self.new_size(size, self._least(item, axis)) if axis in item.free else size
            for axis, size in enumerate(start.shape)
        ]
        holds = Holds.LIST_OF_ANY_RANK if item.of_any_rank else self._holds_what(self.take(start))
        layouts = [leaf for leaf in item.layouts if isinstance(leaf, torch.Tensor)]
        return self.stand_in(start.dtype, shape, holds, layouts or [start])

    def _confirms_layout(self, item: _Carried, leaf: Leaf) -> bool:
        """Whether a leaf lies in memory after an iteration as it is assumed to. The assumption is dropped otherwise."""
        inside, unclear = item.inside, self.recorder.unclear_layouts
        if not (isinstance(leaf, torch.Tensor) and isinstance(inside, FakeTensor) and leaf.ndim == inside.ndim):
            return True
        if not item.varies or self._holds_what(inside) is not Holds.TENSOR or unclear.has(inside):
            return True
        if not unclear.has(leaf) and common_strides([inside, leaf], inside.shape) is not None:
            return True
        item.layouts.append(leaf)
        return False

    def _confirms(self, item: _Carried, out: Leaf, outer: list[Node]) -> bool:
        """Whether the assumptions about a leaf hold after an iteration. An assumption that does not is dropped."""
        if not item.varies:
            if same_leaf(item.start, out) or out is UNSET:
                return True
            if isinstance(item.start, Absent):
                with self.recorder.block(outer):
                    item.start = self.anything_like(out, item.start is EMPTY)
            if not (isinstance(item.start, torch.Tensor) or is_number(item.start)):
                raise self.error(
                    f"a variable is {item.start!r} before the loop and {spelled(out)} after an iteration: assign a "
                    "tensor or a number before the loop"
                )
            item.varies = True
            return False
        if isinstance(out, Absent):
            return True
        inside = item.inside
        dtype, shape = (out.dtype, out.shape) if isinstance(out, torch.Tensor) else (DTYPES.get(type(out)), ())
        if isinstance(out, torch.Tensor) and dtype is inside.dtype and self._holds_what(inside).is_list:
            if self._holds_what(inside) is Holds.LIST_OF_ANY_RANK:
                return True
            if self._holds_what(self.take(out)) is Holds.LIST_OF_ANY_RANK or len(shape) != inside.ndim:
                item.of_any_rank = True
                return False
        if dtype is not inside.dtype or len(shape) != inside.ndim:
            raise self.error(
                f"a variable is {spelled(item.start)} before the loop and {spelled(out)} after an iteration: "
                "keep its dtype and its number of axes in all iterations, as ONNX requires"
            )
        pairs = list(zip(inside.shape, shape, strict=True))
        grown = {axis for axis, (a, b) in enumerate(pairs) if not same_size(a, b)}
        shrinking = {axis for axis in item.free if self._least(item, axis) and not self._never_exceeds(*pairs[axis])}
        is_right = grown <= item.free and not shrinking
        item.free |= grown
        item.shrinking |= shrinking
        return is_right

    def _least(self, item: _Carried, axis: int) -> int:
        """A lower bound of the size of an axis at the head of the loop."""
        size, symbols = item.start.shape[axis], self.recorder.fakes.symbols
        if axis in item.shrinking or symbols is None:
            return 0
        return size if isinstance(size, int) else symbols.least(size)

    def _never_exceeds(self, size: Size, limit: Size) -> bool:
        symbols = self.recorder.fakes.symbols
        return symbols is not None and symbols.never_exceeds(size, limit)

    def _at_end(self, item: _Carried) -> FakeTensor:
        inside = item.inside
        shape = [self.new_size(size) if axis in item.free else size for axis, size in enumerate(inside.shape)]
        return self.stand_in(inside.dtype, shape, self._holds_what(inside), [inside])

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
        """Record a scan over the first axis of tensors. Returns the carried tensors at its end, and the other results
        of the body, stacked.

        The body takes the carried tensors and a slice of each scanned tensor. It returns the carried tensors and any
        other tensors.
        """
        recorder = self.recorder
        starts, wholes = self.settled(initial), self.settled(over)
        count = wholes[0].shape[0]
        with recorder.block() as nodes:
            carried = [recorder.stand_in(start.dtype, start.shape, start.device) for start in starts]
            slices = [recorder.stand_in(whole.dtype, whole.shape[1:], whole.device) for whole in wholes]
            returned = body([*map(self.give, carried)], [*map(self.give, slices)])
            refuse_to_differentiate("a loop", returned)
            outs = self.settled(returned)
        for start, out in zip(starts, outs, strict=False):
            if start.dtype is not out.dtype or not same_shape(start.shape, out.shape):
                shapes = f"{[*start.shape]}", f"{[*out.shape]}"
                raise self.error(
                    f"scan carries {spelled(start)} of shape {shapes[0]}, but its body returns {spelled(out)} of shape "
                    f"{shapes[1]} for it: return a tensor of the same dtype and shape"
                )
        block = Block(
            [recorder.value_of(tensor) for tensor in (*carried, *slices)],
            nodes,
            [recorder.value_of(out) for out in outs],
        )
        ends = [recorder.stand_in(start.dtype, start.shape, start.device) for start in starts]
        ends += [self._stacked(out, count) for out in outs[len(starts) :]]
        self._refuse_derivative("a loop", ends, [*initial, *over])
        arguments = {
            "initial": [recorder.value_of(start) for start in starts],
            "over": [recorder.value_of(whole) for whole in wholes],
            "block": block,
        }
        recorder.add(SCAN, arguments, ends)
        return [self.give(end) for end in ends]
