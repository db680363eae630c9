"""A split of a tensor into parts whose sizes are numbers that were read from values, or only happen to be equal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onnx_parity.exporter.errors import CaptureError, FrozenValueError

__all__ = ["FrozenSizes", "SizesOfTrial", "Trial", "trial_with"]


class Trial(msgspec.Struct, frozen=True):
    """A recording to find out where the sizes of a split come from: the program reads other numbers."""

    #: All whole numbers that it reads and that depend on inputs, in the order in which it reads them.
    numbers: tuple[int, ...]
    #: How many splits come before the one that is looked at.
    split: int


class FrozenSizes(FrozenValueError):
    """A split by sizes that are equal to numbers that the program read from values."""

    def __init__(self, message: str, sizes: Sequence[int], trial: Trial | None) -> None:
        super().__init__(message)
        self.sizes = tuple(sizes)
        #: How to find out whether they come from there; None if they must.
        self.trial = trial


class SizesOfTrial(CaptureError):
    """The sizes of the split that a trial looks at."""

    def __init__(self, sizes: Sequence[object]) -> None:
        super().__init__("a trial has ended")
        self.sizes = tuple(sizes)


def trial_with(read: Sequence[int], places: Sequence[int], sizes: list[int], split: int) -> Trial | None:
    """A trial in which other numbers of the same sum were read, wherever those of a split were."""
    others = [*sizes[1:], sizes[0]] if len(set(sizes)) > 1 else [sizes[0] + 1, sizes[0] - 1, *sizes[2:]]
    if min(others) < 0:
        return None
    numbers = [*read]
    for at in places:
        numbers[at : at + len(sizes)] = others
    return Trial(tuple(numbers), split)
