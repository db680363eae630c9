"""What a program read from tensors, which the exported model has as constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import torch

from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.graph.graph import Origin, Value
from onnx_parity.exporter.torch_inside.frames import FrameType, line_in

__all__ = ["OF_TEXTS", "Altered", "AskedAt", "Read", "looked_at"]


class Altered(msgspec.Struct, frozen=True):
    """Other values for one read, by its number. They are of several kinds, since a program may tell only some apart:
    `torch.is_nonzero` those that are 0, `math.isnan` those that are no numbers, a comparison with 100 large ones."""

    read: int
    kind: int = 0
    #: The dynamic sizes of which texts tell others, by the names of their symbols.
    sizes: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def kinds(dtype: torch.dtype) -> range:
        """The kinds of other values there are for a dtype."""
        return range(1 if dtype is torch.bool else 5 if dtype.is_floating_point or dtype.is_complex else 4)

    def tensor(self, tensor: torch.Tensor, number: int) -> torch.Tensor:
        """Other values of the same dtype and shape, for the tensor that is read as the one of this number."""
        if tensor.dtype is torch.bool:
            return ~tensor
        others = (tensor + number, torch.zeros_like(tensor), -tensor - number, tensor + 1000)
        return others[self.kind] if self.kind < len(others) else torch.full_like(tensor, math.nan)

    def number(self, number: float) -> float:
        """Another number."""
        others = (number + 1, type(number)(0), -number - 1, number + 1000)
        return others[self.kind] if self.kind < len(others) else math.nan


#: Texts of tensors and of symbolic numbers are others: all of them if no sizes are said.
OF_TEXTS = -1


class AskedAt(NamedTuple):
    """The place at which a program asks for values."""

    file: str
    line: int

    @classmethod
    def of(cls, frame: FrameType) -> AskedAt:
        return cls(*line_in(frame))


class Read(msgspec.Struct, eq=False):
    """Values that the program turned into Python values at one place."""

    origin: Origin
    #: The warning about it.
    text: str
    #: How the program spells what it read, `x.sum() > 0`; empty where that is not known.
    spelled: str
    #: The inputs whose values, and not only whose sizes, it depends on.
    sources: Sequence[Value]
    #: Whether it depends on random numbers and on no input.
    is_random: bool
    values: Sequence[Value]
    #: Whether it is only a part of what is spelled, such as the number of `range(n)`.
    is_within: bool
    #: Whether it decides if the program leaves a loop.
    ends_loop: bool
    #: Where the program asks, if it is one with lines.
    asked_at: AskedAt | None
    #: What they are for the example inputs.
    tensors: Sequence[torch.Tensor] = ()
    #: The answer, if it was asked for a truth value.
    answer: bool | None = None
    #: The condition on what was read that holds for the example, if it was a number that was asked about.
    holding: Expression | None = None
    #: Whether torch asked for it, which may fail with the other answer where the program does not.
    is_asked_by_torch: bool = False
    #: Whether an error is raised with the other answer.
    is_guard: bool = False

    def keep(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keep what was read, unless it has no data."""
        if all(type(each) is torch.Tensor and not each.is_meta for each in tensors):
            self.tensors = tensors
            if len(tensors) == 1 and tensors[0].dtype is torch.bool and tensors[0].numel() == 1:
                self.answer = bool(tensors[0])

    @property
    def condition(self) -> str:
        """What holds for the example, in Python's syntax as far as it is known; empty if it is a random number."""
        if self.is_random:
            return ""
        if self.answer is not None:
            spelled = self.spelled or "what the program asks there"
            return spelled if self.answer else f"not ({spelled})"
        if len(self.tensors) != 1 or self.tensors[0].numel() != 1:
            return "what the program reads there is as for the example"
        number = self.tensors[0].item()
        if self.is_within or not self.spelled:
            return f"what the program reads there is {number}"
        return f"{self.spelled} == {number}"


def looked_at(reads: Sequence[Read]) -> Mapping[Value, Origin]:
    """The inputs that decisions were made by, each with the place of the first of them."""
    return {source: read.origin for read in reversed(reads) for source in read.sources}
