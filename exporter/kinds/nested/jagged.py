"""Jagged nested tensors: rows of different lengths, one after another on one axis of a tensor, and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.jagged_rows import packed, padded, row_and_place
from onnx_parity.exporter.kinds.nested.nested import Nested, RaggedSize, Rule, nested_in
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["Jagged", "from_padded"]

asks_for_its_caller(__file__)


class Jagged(Nested):
    """A jagged nested tensor of the program."""

    __slots__ = ("_cache", "_lengths", "_offsets", "_ragged_idx", "_sizes", "_values")

    rules: ClassVar[dict[str, Rule]] = {}
    layout = torch.jagged

    def __init__(
        self,
        values: torch.Tensor,
        offsets: torch.Tensor,
        lengths: torch.Tensor | None = None,
        *,
        ragged: int = 1,
        cache: dict[str, Any] | None = None,
        sizes: Sequence[Any] | None = None,
    ) -> None:
        self._values = values
        self._offsets = offsets
        #: Where rows do not begin where the last one ends.
        self._lengths = lengths
        #: The ragged axis. It is one less in the values, which have no axis of rows.
        self._ragged_idx = ragged
        #: The least and the greatest length, as numbers, if they are known. As in torch, nested tensors that are made
        #: of this one share them if any is known by then: padding without a size depends on them.
        self._cache = cache or {}
        #: The lengths as sizes of the program, if the nested tensor was made of a list.
        self._sizes = sizes

    def alike(self, values: torch.Tensor, ragged: int | None = None) -> Jagged:
        """The nested tensor of other values with rows of the same lengths."""
        return Jagged(
            values,
            self._offsets,
            self._lengths,
            ragged=self._ragged_idx if ragged is None else ragged,
            cache=self._cache,
            sizes=self._sizes,
        )

    def apply(self, func: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> Jagged:
        return self.alike(func(self._values, *args, **kwargs))

    # --- what it looks like -------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return self._values.ndim + 1

    @property
    def inner(self) -> int:
        """The ragged axis of the values."""
        return self._ragged_idx - 1

    @property
    def ragged_size(self) -> RaggedSize:
        return RaggedSize(self._offsets if self._lengths is None else self._lengths)

    @property
    def shape(self) -> tuple[Any, ...]:
        sizes = self._values.shape
        return (self._offsets.shape[0] - 1, *sizes[: self.inner], self.ragged_size, *sizes[self._ragged_idx :])

    _size = shape

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def example(self) -> torch.Tensor:
        return self._values

    def axis(self, dim: int, name: str, *, among: int | None = None) -> int:
        """An axis of the values. `dim` counts the axes of the nested tensor, or of one that has `among` axes."""
        count = self.ndim if among is None else among
        if not -count <= dim < count:
            raise IndexError(f"{name}: axis {dim} of a nested tensor that has {count}")
        dim %= count
        if dim == 0 or (dim == self._ragged_idx and among is None):
            which = "of the rows" if dim == 0 else "that is ragged"
            raise refused_here(
                f"the program calls {name} along the axis of a nested tensor {which}, which torch cannot do either, or "
                "for which the exporter has no rule: use nt.to_padded_tensor(padding) or nt.values()"
            )
        return dim - 1

    def has_rows_of(self, other: Nested) -> bool:
        """Whether the rows of another nested tensor have the same lengths, as far as torch knows."""
        return isinstance(other, Jagged) and self.ragged_size == other.ragged_size

    # --- its parts ----------------------------------------------------------------------------------------------------

    def values(self) -> torch.Tensor:
        return self._values

    def offsets(self) -> torch.Tensor:
        return self._offsets

    def lengths(self) -> torch.Tensor | None:
        return self._lengths

    def lengths_of_rows(self) -> torch.Tensor:
        return self._offsets.diff() if self._lengths is None else self._lengths

    def longest(self) -> Any:
        """The greatest length of a row, as a number."""
        known = self._cache.get("max")
        if known is not None:
            return known
        return self.lengths_of_rows().max().item()

    def _get_max_seqlen(self) -> Any:
        self._cache["max"] = longest = self.longest()
        return longest

    def _get_min_seqlen(self) -> Any:
        known = self._cache.get("min")
        self._cache["min"] = shortest = self.lengths_of_rows().min().item() if known is None else known
        return shortest

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)

    @property
    def _maybe_max_seqlen(self) -> Any:
        return self._cache.get("max")

    @property
    def _maybe_min_seqlen(self) -> Any:
        return self._cache.get("min")

    def count(self) -> int:
        """The number of rows, of which there have to be as many as in the example."""
        rows = self._offsets.shape[0] - 1
        if isinstance(rows, Varying):
            raise refused_here(
                "the program takes a nested tensor apart into its rows, the number of which is dynamic: leave that "
                "axis out of dynamic_axes, or use nt.to_padded_tensor(padding)"
            )
        return rows

    def rows(self) -> list[torch.Tensor]:
        """The parts that it consists of."""
        before = (slice(None),) * self.inner
        if self._sizes is not None:
            return list(self._values.split(list(self._sizes), self.inner))
        lengths = self.lengths_of_rows()
        parts = []
        for row in range(self.count()):
            start = self._offsets[row].item()
            parts.append(self._values[(*before, slice(start, start + lengths[row].item()))])
        return parts

    # --- padding ------------------------------------------------------------------------------------------------------

    def padded(self, padding: Any, size: Any) -> torch.Tensor:
        """The dense tensor with padding at the end of rows, whose ragged axis has this size."""
        batch = padded(self._values.movedim(self.inner, 0), self._offsets[:-1], self.lengths_of_rows(), size, padding)
        return batch.movedim(1, self._ragged_idx)

    def usual_size(self) -> Any:
        """The size to which torch pads where none is given: that of all values if no length is known."""
        known = self._cache.get("max")
        return self._values.shape[0] if known is None else known

    def of_batch(self, batch: torch.Tensor) -> Jagged:
        """The nested tensor that has its rows from a dense tensor, whose ragged axis is at the same place."""
        total = self._values.shape[self.inner]
        values = packed(batch.movedim(self._ragged_idx, 1), self._offsets, total)
        return self.alike(values.movedim(0, self.inner))

    # --- element by element -------------------------------------------------------------------------------------------

    def pointwise(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        first = next(nested_in(*args, *kwargs.values()))
        assert isinstance(first, Jagged)
        name = func.__name__.strip("_")
        args = [first._beside(each, name) for each in args]
        kwargs = {key: first._beside(each, name) for key, each in kwargs.items()}
        made = func(*args, **kwargs)
        if isinstance(made, tuple):
            return tuple(map(first.alike, made))
        return first.alike(made)

    def _beside(self, argument: Any, name: str) -> Any:
        """What the values are computed with, in the place of an argument."""
        if isinstance(argument, Jagged):
            if not self.has_rows_of(argument) or argument._ragged_idx != self._ragged_idx:
                raise refused_here(
                    f"the program gives {name} two nested tensors that were made of different offsets, which torch "
                    "takes for different lengths: make both of the same tensor of offsets"
                )
            return argument._values
        if not isinstance(argument, torch.Tensor) or argument.ndim == 0:
            return argument
        dense = argument
        while dense.ndim and argument.ndim <= self.ndim and dense.shape[0] == 1:
            dense = dense.squeeze(0)
        if self.ndim >= dense.ndim + 2:
            return dense
        rows: Size = self._offsets.shape[0] - 1
        given: Size = argument.shape[0]
        differ = isinstance(rows, int) and isinstance(given, int) and rows != given
        if argument.ndim != self.ndim or differ or self._lengths is not None:
            raise refused_here(
                f"the program gives {name} a nested tensor of the shape {self.shape}, and a dense one of the shape "
                f"{tuple(argument.shape)} that torch does not broadcast with it: give one of as many axes and rows"
            )
        # Each element of a row has the row of the dense tensor, and its place there unless there is only one.
        total = self._values.shape[self.inner]
        row, place = row_and_place(self._offsets, total)
        along = argument.movedim(self._ragged_idx, 1)
        beside = along.squeeze(1)[row] if along.shape[1] == 1 else along.flatten(0, 1)[row * along.shape[1] + place]
        return beside.movedim(0, self.inner)


def from_padded(
    batch: torch.Tensor, offsets: torch.Tensor, ragged: int, cache: dict[str, Any], total: Any = None
) -> Jagged:
    """The nested tensor of the rows of a dense tensor with padding, which is left out."""
    total = offsets[-1].item() if total is None else total
    values = packed(batch.movedim(ragged, 1), offsets, total)
    return Jagged(values.movedim(0, ragged - 1), offsets, ragged=ragged, cache=cache)
