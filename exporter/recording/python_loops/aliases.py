"""Tensors that the program makes one within the body of a loop, and that the next iteration is given as several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf, share_memory
from onnx_parity.exporter.recording.lost_writes import MayBeOne, TensorThen

__all__ = ["Aliases"]

_WRITTEN = (
    "a loop over a dynamic size writes in place to a tensor that another variable, or a list, has too since an earlier "
    "iteration: keep a clone of it there"
)


class Aliases:
    """Which leaves that a loop carries are one tensor at the end of an iteration, by their numbers.

    A write to one of them is refused if the iteration uses the other, and so is one to what was added to a list.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._pairs: set[tuple[int, int]] = set()
        #: Leaves, with the places of lists to which they were added.
        self._held: set[tuple[int, int]] = set()
        #: What was added to lists, by the places of these. It may be a part of any tensor outside of the loop.
        self._added: dict[int, list[torch.Tensor]] = {}
        self._given: Sequence[Leaf] = ()
        self._before: Sequence[Leaf] = ()
        #: How many nodes were recorded before the iteration.
        self._begun = 0

    def begin(self, given: Sequence[Leaf], before: Sequence[Leaf]) -> None:
        """Note what an iteration is given, also as the recorder's tensors."""
        self._given, self._before, self._begun = given, before, len(self._blocks.recorder.nodes)

    def end(self, starts: Sequence[Leaf], leaves: Sequence[Leaf], added: Mapping[int, Sequence[torch.Tensor]]) -> None:
        """Note what an iteration leaves, where the loop started with others; refuse what it has written to."""
        written = {
            number
            for number, given in enumerate(self._given)
            if isinstance(given, torch.Tensor) and self._blocks.take(given) is not self._before[number]
        }
        for pair in self._pairs:
            for mine, theirs in (pair, pair[::-1]):
                if mine in written and theirs not in written and self._is_used(theirs, leaves):
                    raise self._blocks.error(_WRITTEN)
        tensors = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for one, other in combinations(tensors, 2):
            if share_memory(leaves[one], leaves[other]) and not _share_memory(starts[one], starts[other]):
                self._pairs.add((one, other))
        for place, items in added.items():
            self._added.setdefault(place, []).extend(items)
            held = {number for number in tensors if any(share_memory(leaves[number], item) for item in items)}
            if not held.isdisjoint(written):
                raise self._blocks.error(_WRITTEN)
            self._held |= {(number, place) for number in held}

    def _is_used(self, number: int, leaves: Sequence[Leaf]) -> bool:
        """Whether the iteration has read a tensor that it was given, or leaves it."""
        recorder, tensor = self._blocks.recorder, self._before[number]
        if not isinstance(tensor, torch.Tensor):
            return False
        value = recorder.value_of(tensor)
        is_read = any(value in node.inputs() for node in recorder.nodes[self._begun :])
        return is_read or any(each is tensor for each in self._blocks.settled(leaves))

    def watch(self, ends: Sequence[Leaf], stacks_of: Callable[[int], Sequence[torch.Tensor]]) -> None:
        """Watch the tensors after the loop that are one if it has run."""
        recorder = self._blocks.recorder
        pairs = [(ends[one], ends[other]) for one, other in self._pairs]
        pairs += [(ends[number], stack) for number, place in self._held for stack in stacks_of(place)]
        pairs += [(each, stack) for place, items in self._added.items() for each in items for stack in stacks_of(place)]
        for pair in pairs:
            if pair[0] is not pair[1] and all(isinstance(each, torch.Tensor) for each in pair):
                one, other = (TensorThen.of(each, recorder.value_of(self._blocks.take(each))) for each in pair)
                recorder.may_be_one.append(MayBeOne((one, other), recorder.origins.find()))

    def forget(self) -> None:
        """Called when the loop begins again."""
        self._pairs.clear()
        self._held.clear()
        self._added.clear()


def _share_memory(one: Leaf, other: Leaf) -> bool:
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and share_memory(one, other)
