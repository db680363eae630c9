"""What a loop of Python goes over as often as a dynamic size says: `range`, the first axis of a tensor, and what
`enumerate`, `zip` and `reversed` make of these.

Python asks an iterator for one item after the other, so that the number of items would be that of the example. Each
class of this file says how many items there are and computes the one at a place, which may be a symbol. The recording
makes a loop of the model of what goes over one (`recording/python_loops/`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import torch

from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = [
    "Items",
    "Parts",
    "Range",
    "applied",
    "behind_first",
    "items_in",
    "product_of",
    "reversed_items",
    "with_numbers",
    "zipped",
]

asks_for_its_caller(__file__)

#: A size, or the place of an item.
_Number = int | torch.SymInt


class Items:
    """Items of which there are as many as a dynamic size says."""

    #: Loads what the next ones are; it is called when there are items.
    load: ClassVar[Callable[[], None]]
    #: The class of the iterator of a loop over items, and what makes a list of items, adds them up, finds the largest
    #: or smallest, asks whether one is true or all are, applies a comprehension to what the iterator gives, and applies
    #: a function to a value and one item after the other: the last value, or a list of all. And what makes items of a
    #: list.
    loop: ClassVar[Any] = ()
    as_list: ClassVar[Callable[[Iterable[Any]], list[Any]]]
    total: ClassVar[Callable[[Iterable[Any], Any], Any]]
    most: ClassVar[Callable[[Iterable[Any], Callable[[Any, Any], Any], Callable[[Any], Any]], Any]]
    has_true: ClassVar[Callable[[Iterable[Any]], Any]]
    are_true: ClassVar[Callable[[Iterable[Any]], Any]]
    comprehended: ClassVar[Callable[[Any, Callable[[Any], Any]], list[Any]]]
    known: ClassVar[Callable[[list[Any]], Items]]
    folded: ClassVar[Callable[[Callable[[Any, Any], Any], Iterable[Any], Any], Any]]
    accumulated: ClassVar[Callable[[Callable[[Any, Any], Any], Iterable[Any], Any], list[Any]]]
    length: _Number

    def __new__(cls, *args: Any) -> Self:
        Items.load()
        return super().__new__(cls)

    @abstractmethod
    def item(self, place: _Number) -> Any:
        """The item at a place, which is counted from the first one."""

    @property
    def parts(self) -> Sequence[Parts]:
        """The parts of tensors among them. A program that writes to one writes to the whole tensor."""
        return ()

    def as_in_example(self) -> Iterator[Any]:
        """As many items as in the example, for what is no loop."""
        for place in range(int(self.length)):
            yield self.item(place)

    def __iter__(self) -> Iterator[Any]:
        begun: Iterator[Any] = Items.loop(self)
        return begun

    def __len__(self) -> int:
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __reversed__(self) -> Iterator[Any]:
        return iter(reversed_items(self))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [*self][place]
        return self.item(self.length + place if place < 0 else place)


class Range(Items):
    """`range` of dynamic sizes."""

    def __init__(self, start: _Number, stop: _Number, step: _Number) -> None:
        self.start, self.step = start, step
        distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
        count = distance if stride == 1 else (distance + stride - 1) // stride
        is_count = isinstance(count, torch.SymInt) and count.node.shape_env.never_exceeds(0, count)
        self.length = count if is_count else torch.sym_max(0, count)

    def __contains__(self, number: Any) -> bool:
        place = (number - self.start) // self.step
        return bool(place >= 0) and bool(place < self.length) and bool(self.item(place) == number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (range, Range)):
            return False
        length = len(other) if isinstance(other, range) else other.length
        if self.length != length:
            return False
        is_same = bool(self.length == 0) or bool(self.start == other.start)
        return is_same and (bool(self.length <= 1) or bool(self.step == other.step))

    __hash__ = None  # type: ignore[assignment]

    def item(self, place: _Number) -> Any:
        return self.start + (place if self.step == 1 else place * self.step)


class Parts(Items):
    """The parts of a tensor along its first axis."""

    def __init__(self, whole: torch.Tensor) -> None:
        self.whole = whole
        self.length = whole.shape[0]

    @property
    def parts(self) -> Sequence[Parts]:
        return (self,)

    def as_in_example(self) -> Iterator[Any]:
        unbind = torch.unbind
        return iter(getattr(unbind, "__wrapped__", unbind)(self.whole, 0))

    def item(self, place: _Number) -> Any:
        return self.whole[place]


class _Of(Items):
    """Items that are computed from those at the same places of others."""

    def __init__(self, others: Sequence[Items], compute: Callable[..., Any]) -> None:
        self._others, self._compute = others, compute
        self.length = others[0].length
        for other in others[1:]:
            self.length = torch.sym_min(self.length, other.length)

    @property
    def parts(self) -> Sequence[Parts]:
        return [part for other in self._others for part in other.parts]

    def item(self, place: _Number) -> Any:
        return self._compute(place, *[other.item(place) for other in self._others])


class _Reversed(Items):
    def __init__(self, items: Items) -> None:
        self._items = items
        self.length = items.length

    @property
    def parts(self) -> Sequence[Parts]:
        return self._items.parts

    def item(self, place: _Number) -> Any:
        return self._items.item(self.length - 1 - place)


class _BehindFirst(Items):
    def __init__(self, items: Items) -> None:
        self._items = items
        self.length = items.length - 1

    @property
    def parts(self) -> Sequence[Parts]:
        return self._items.parts

    def item(self, place: _Number) -> Any:
        return self._items.item(place + 1)


class _Product(Items):
    """All combinations of the items of several, the last of which change fastest."""

    def __init__(self, several: Sequence[Items]) -> None:
        self._several = several
        self.length = math.prod(each.length for each in several)

    def item(self, place: Any) -> Any:
        items = []
        for each in reversed(self._several):
            items.append(each.item(place % each.length))
            place = place // each.length
        return tuple(reversed(items))


def items_in(value: Any) -> Items | None:
    """The items of what a loop goes over, if their number is a dynamic size."""
    if isinstance(value, torch.Tensor):
        length: _Number = value.shape[0] if value.dim() else 0
        return Parts(value) if isinstance(length, torch.SymInt) and not length.node.expr.is_number else None
    items = getattr(value, "items_of_loop", None) if isinstance(value, list) else value
    return items if isinstance(items, Items) else None


def behind_first(items: Items) -> Items:
    return _BehindFirst(items)


def reversed_items(items: Items) -> Items:
    return _Reversed(items)


def with_numbers(items: Items, start: _Number = 0) -> Items:
    """What `enumerate` makes of items."""
    return _Of([items], lambda place, item: (start + place, item))


def applied(function: Callable[[Any], Any], items: Items) -> Items:
    """What `map` makes of items."""
    return _Of([items], lambda place, item: function(item))


def product_of(several: Sequence[Items]) -> Items:
    """What `itertools.product` makes of several, of which at least one has as many items as a dynamic size says."""
    return _Product(several)


def zipped(several: Sequence[Items]) -> Items:
    return _Of(several, lambda place, *items: items)
