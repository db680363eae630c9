"""Why a recording is given up: `trace` makes another one, which allows what the program does."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onnx_parity.exporter.errors import CaptureError, FrozenValueError
from onnx_parity.exporter.graph.graph import Origin

__all__ = [
    "FrozenSizes",
    "NeedsSelects",
    "NeedsSymbols",
    "NeedsViews",
    "OwnTensorWritten",
    "SizesOfTrial",
    "Trial",
    "own_tensor_written",
]


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


class OwnTensorWritten(CaptureError):
    """The program writes to a tensor that it owns, or to a tensor that was computed from such tensors alone."""


class NeedsSymbols(CaptureError):
    """The program has data-dependent sizes, but is being recorded without symbols."""


class NeedsSelects(CaptureError):
    """torch asks for the sizes of a tensor as numbers, although one is dynamic.

    It does so for a write to a part that `unbind` has made, and not for a write to one that `select` has made.
    """


class NeedsViews(CaptureError):
    """The program calls `set_`, but is being recorded with its inputs themselves and not with views of them."""


def own_tensor_written(name: str, origin: Origin) -> OwnTensorWritten:
    what = f"{name!r}, which" if name else "a tensor that"
    return OwnTensorWritten(
        f"the program writes in place{origin.placed} to {what} is neither created in it nor an input or buffer. "
        "Register that tensor with register_buffer, or write to a copy of it."
    )
