"""Input makers: frozen, lazy declarations of tensors, such as `floats(2, 3)` or `ints(4, high=10)`.

A maker contains no tensor. It creates one from a seed: the same cell has the same values everywhere, another seed gives
other values, and `resized` gives the same kind of values at another size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self, TypeAlias

import torch

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.declaration_error import DeclarationError

#: What neither int32 nor float32 holds in an element that is 1 to 2**21 greater or smaller.
_FAR = 2**32
#: The dtypes in which values are drawn that narrower ones cannot hold.
_WIDE = (torch.int64, torch.float64)

Nested: TypeAlias = "bool | int | float | Sequence[Nested]"


def name_of(dtype: torch.dtype) -> Dtype:
    return Dtype(str(dtype).removeprefix("torch."))


class Layout(StrEnum):
    """How a tensor lies in memory."""

    CHANNELS_LAST = "channels_last"
    #: The last two axes have changed places.
    TRANSPOSED = "transposed"
    #: Every second element of another tensor, from the second one on.
    SLICED = "sliced"
    #: One element of the first axis, that many times.
    EXPANDED = "expanded"

    def lay(self, x: torch.Tensor) -> torch.Tensor:
        """The values of a tensor, or of its first element, in this layout."""
        match self:
            case Layout.CHANNELS_LAST:
                return x.movedim(1, -1).contiguous().movedim(-1, 1)
            case Layout.TRANSPOSED:
                return x.mT.contiguous().mT if x.ndim > 1 else x
            case Layout.SLICED:
                return torch.stack([torch.zeros_like(x), x], -1)[..., 1]
            case Layout.EXPANDED:
                return x[:1].expand(x.shape)


@dataclass(frozen=True, slots=True)
class Maker(ABC):
    """Makes one input of a program."""

    shape: tuple[int, ...]
    #: The dtype; None follows the cell's dtype.
    dtype: torch.dtype | None = field(default=None, kw_only=True)
    #: Whether it is part of the program and not one of its inputs, so that the exporter sees a constant.
    constant: bool = field(default=False, kw_only=True)
    #: How it lies in memory; None for a contiguous tensor.
    layout: Layout | None = field(default=None, kw_only=True)

    @abstractmethod
    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        """Values of this shape, in a dtype at least as precise as `dtype`, to which they are rounded afterwards."""

    def make(self, seed: int, cell_dtype: Dtype) -> torch.Tensor:
        dtype = self.dtype or getattr(torch, cell_dtype)
        made = self.draw(torch.Generator().manual_seed(seed), dtype).to(dtype)
        return made if self.layout is None else self.layout.lay(made)

    def laid(self, layout: str) -> Self:
        """The same values, in a tensor that lies in memory as one of `Layout` does: `floats(2, 3, 4, 5).laid(
        "channels_last")`."""
        return replace(self, layout=Layout(layout))

    def resize(self, sizes: Mapping[int, int]) -> Self:
        shape = tuple(sizes.get(dimension, size) for dimension, size in enumerate(self.shape))
        return replace(self, shape=shape)

    @property
    def has_special(self) -> bool:
        """Whether there are NaN or infinities among its values, in the cell's dtype."""
        return False

    def __str__(self) -> str:
        spelled = f"{type(self).__name__.lower()}({','.join(map(str, self.shape))})"
        return spelled if self.layout is None else f"{spelled}.{self.layout}"


@dataclass(frozen=True, slots=True)
class Floats(Maker):
    """Real numbers: normally distributed, or uniformly distributed if a bound is given."""

    low: float | None = field(default=None, kw_only=True)
    high: float | None = field(default=None, kw_only=True)
    special: tuple[float, ...] = field(default=(), kw_only=True)

    @property
    def has_special(self) -> bool:
        return self.dtype is None and not all(map(math.isfinite, self.special))

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        # Drawn in float64, so that a float64 cell has digits that float32 would lose.
        values = torch.empty(self.shape, dtype=torch.float64)
        if self.low is None and self.high is None:
            values.normal_(generator=generator)
        else:
            low = self.low if self.low is not None else (self.high or 0.0) - 2.0
            high = self.high if self.high is not None else low + 2.0
            values.uniform_(low, high, generator=generator)
        if self.special and values.numel():
            places = torch.randperm(values.numel(), generator=generator)[: len(self.special)]
            values.view(-1)[places] = torch.tensor(self.special[: len(places)], dtype=torch.float64)
        return values


@dataclass(frozen=True, slots=True)
class Complexes(Maker):
    """Complex numbers, whose parts are normally distributed and have the dtype of the cell, but not fewer bits than
    float32."""

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty((*self.shape, 2), dtype=torch.float64).normal_(generator=generator)

    def make(self, seed: int, cell_dtype: Dtype) -> torch.Tensor:
        # ONNX has no complex numbers of halves, and torch next to none.
        real = torch.promote_types(getattr(torch, cell_dtype), torch.float32)
        return torch.view_as_complex(self.draw(torch.Generator().manual_seed(seed), real).to(real))


@dataclass(frozen=True, slots=True)
class Numbers(Maker):
    """Whole numbers in [low, high), in the dtype of the cell, which may be ints or floats."""

    low: int = field(default=-4, kw_only=True)
    high: int = field(default=5, kw_only=True)
    #: Whether half of those in int64 and float64 are farther from 0, so that fewer bits would change them.
    far: bool = field(default=False, kw_only=True)

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        low = max(self.low, 0) if dtype in (torch.uint8, torch.bool) else self.low
        values = torch.randint(low, self.high, self.shape, generator=generator)
        if self.far and dtype in _WIDE:
            are_far = torch.randperm(values.numel(), generator=generator).view(self.shape) % 2 == 0
            values += torch.where(are_far, torch.where(values < 0, -_FAR, _FAR), 0)
        return values


@dataclass(frozen=True, slots=True)
class Ints(Numbers):
    """Whole numbers that keep their own int dtype."""


@dataclass(frozen=True, slots=True)
class Distinct(Maker):
    """Values that are all different, at least 1 apart, so that sorting, top-k and arg-max have one correct answer."""

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(self.shape)
        order = torch.randperm(count, generator=generator).view(self.shape)
        if dtype is torch.float64 and self.dtype is None:
            # In float32 they would all be the same.
            return order - count // 2 + _FAR
        if dtype is torch.int64 and self.dtype is None:
            # Their order is also that of their lower 32 bits, by which onnxruntime takes the greatest of integers
            # (findings/onnxruntime_maximum_of_large_integers).
            return (order - count // 2) * (_FAR + 1)
        return order - count // 2 if dtype != torch.uint8 else order


@dataclass(frozen=True, slots=True)
class Bools(Maker):
    """True and False, evenly."""

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.randint(0, 2, self.shape, generator=generator)


@dataclass(frozen=True, slots=True)
class Given(Maker):
    """Fixed values, independent of the seed."""

    values: Nested = field(kw_only=True)

    @property
    def has_special(self) -> bool:
        return self.dtype is None and not bool(torch.tensor(self.values).isfinite().all())

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(self.values, dtype=dtype)

    def resize(self, sizes: Mapping[int, int]) -> Self:
        raise DeclarationError(f"{self} has no other sizes; a dynamic input needs a maker such as floats(2, 3).")


@dataclass(frozen=True, slots=True)
class Listed(Maker):
    """A list of tensors as one input, whose length may be dynamic. Its shape is that of its first tensor."""

    items: tuple[Maker, ...] = field(kw_only=True)

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        raise DeclarationError(f"{self} makes a list of tensors. Give it as an input, and not inside a tuple.")

    def make_all(self, seed: int, cell_dtype: Dtype) -> list[torch.Tensor]:
        return [item.make(stable_seed(seed, str(place)), cell_dtype) for place, item in enumerate(self.items)]

    def resize(self, sizes: Mapping[int, int]) -> Self:
        """The list with all tensors but the first resized, so that their sizes differ."""
        return replace(self, items=(self.items[0], *(item.resize(sizes) for item in self.items[1:])))

    def of_length(self, length: int) -> Self:
        return replace(self, items=tuple(self.items[place % len(self.items)] for place in range(length)))


def listed(*items: Maker) -> Maker:
    """A list of these tensors. A `ListOf` in `dynamic` makes its length dynamic."""
    return Listed(items[0].shape, items=items)


def floats(
    *shape: int,
    low: float | None = None,
    high: float | None = None,
    special: tuple[float, ...] = (),
    dtype: torch.dtype | None = None,
    constant: bool = False,
) -> Maker:
    """Standard normal values in the cell's floating dtype; uniform if a bound is given, 2 wide if only one is given.

    `special` values (nan, inf, -0.0, ...) are put at positions that depend on the seed.
    """
    return Floats(shape, low=low, high=high, special=special, dtype=dtype, constant=constant)


def complexes(*shape: int) -> Maker:
    """Complex numbers with standard normal parts: complex64 in float32, complex128 in float64."""
    return Complexes(shape)


def numbers(
    *shape: int,
    low: int | None = None,
    high: int | None = None,
    dtype: torch.dtype | None = None,
    far: bool | None = None,
) -> Maker:
    """Small whole numbers in the cell's dtype, whether that is an int or a float: from -4 to 4, or in [low, high).

    Half of those in int64 and float64 are 2**32 farther from 0 if they may be `far`, as they may without bounds and
    `dtype`, so that the cell fails if they are computed with in fewer bits.
    """
    if far is None:
        far = low is None and high is None and dtype is None
    low, high = -4 if low is None else low, 5 if high is None else high
    return Numbers(shape, low=low, high=high, dtype=dtype, far=far)


def distinct(*shape: int, dtype: torch.dtype | None = None) -> Maker:
    """A shuffled range in the cell's dtype, without ties: in int64 in large steps, in float64 of large numbers."""
    return Distinct(shape, dtype=dtype)


def ints(*shape: int, low: int = 0, high: int = 10, dtype: torch.dtype = torch.int64, constant: bool = False) -> Maker:
    """Ints in [low, high), in `dtype` and not the cell's dtype: indices, lengths, counts."""
    return Ints(shape, low=low, high=high, dtype=dtype, constant=constant)


def bools(*shape: int, constant: bool = False) -> Maker:
    """Booleans: masks and conditions."""
    return Bools(shape, dtype=torch.bool, constant=constant)


def given(values: Nested, *, dtype: torch.dtype | None = None, constant: bool = False) -> Maker:
    """Exactly these values. Floats follow the cell's dtype; without `dtype`, ints are int64 and booleans bool."""
    tensor = torch.tensor(values)
    pinned = dtype if dtype is not None or tensor.is_floating_point() else tensor.dtype
    return Given(tuple(tensor.shape), values=values, dtype=pinned, constant=constant)


def image(size: int, *, channels: int = 3, batch: int = 2) -> Maker:
    """A batch of square images."""
    return Floats((batch, channels, size, size))
