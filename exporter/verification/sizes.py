"""Which sizes of dynamic axes a model is verified at: the fewest that tell whether it is right at all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from onnx_parity.exporter.request.size_expressions import evaluated, is_expression

__all__ = ["Sizes"]

#: The number of columns in which each axis has each of its sizes once: a prime, 1 and 2.
_COLUMNS = 3


class Sizes:
    """The sizes of the example, by the names of the axes, and what is tried instead.

    Each axis is tried at 0, 1, 2, and a prime that is larger than in the example, since a number that the model has
    from the example is often right for all smaller ones. Sizes other than 0 are tried for all axes at once, so that no
    two are alike. A name that is an expression over others has its value.
    """

    def __init__(
        self,
        example: Mapping[str, int],
        ranges: Mapping[str, tuple[Any, Any] | None] | None = None,
        further: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """`ranges` are the least and the greatest sizes that were promised, and `further` other sizes that may tell."""
        self.example = dict(example)
        self._expressions = [name for name in example if is_expression(name, example)]
        self._free = {name: size for name, size in example.items() if name not in self._expressions}
        self._ranges = ranges or {}
        self._further = further or {}

    def changes(self) -> Iterator[dict[str, int]]:
        """The changes of the example's sizes to try, those that tell most first."""
        primes: dict[str, int] = {}
        least = 1 if len(self._free) == 1 else 2
        for name, size in self._free.items():
            # Of a single axis, 2 is the prime above 1: it would be tried besides.
            primes[name] = _prime_above(max(size, least), primes.values())
        columns = [
            {name: (primes[name], 1, 2)[(place + column) % _COLUMNS] for place, name in enumerate(self._free)}
            for column in range(_COLUMNS)
        ]
        yield from columns
        if len(self._free) > 1:
            yield dict.fromkeys(self._free, 1)
        for name, sizes in self._further.items():
            yield from ({name: size} for size in sizes if name in self._free)
        yield from ({name: 0} for name in self._free)

    def apart(self, change: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """What to try instead of a change that the program refuses: each axis alone."""
        if len(change) > 1:
            yield from ({name: size} for name, size in change.items() if size != self.example[name])

    def variants(self, change: Mapping[str, int]) -> list[dict[str, int]]:
        """The sizes to try for a change, of which those count that the program accepts first: as they are; with the
        sizes equal that are in the example, and sums that are sums; and where one axis is longer, with others for it.
        """
        changes = [change]
        if len(change) == 1:
            ((name, size),) = change.items()
            before = self.example[name]
            if size > max(before, 2) and size not in self._further.get(name, ()):
                # Strides and patches divide powers of two.
                changes += [{name: longer} for longer in (before + (before & -before), 2 * before)]
        wanted = [{**self._free, **each} for each in changes]
        related = [_as_in_example(self._free, each, other) for each, other in zip(changes, wanted, strict=True)]
        found: list[dict[str, int]] = []
        for sizes in (each for pair in zip(wanted, related, strict=True) for each in pair):
            bounded = {name: _within(size, self._ranges.get(name)) for name, size in sizes.items()}
            bounded |= {name: evaluated(name, bounded) for name in self._expressions}
            if bounded not in found and min(bounded.values(), default=0) >= 0:
                found.append(bounded)
        return found


def _prime_above(size: int, taken: Collection[int]) -> int:
    """The least prime above a size that is not taken."""
    number = max(size, 1) + 1
    while number in taken or any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _as_in_example(example: Mapping[str, int], change: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The wanted sizes, changed so that those are equal that are equal in the example, and sums are sums."""
    related: dict[str, int] = {}
    by_size: dict[int, str] = {}
    for name, size in sorted(example.items(), key=lambda item: (item[1], item[0] not in change)):
        terms = next(
            ((one, other) for one, a in example.items() for other, b in example.items() if a + b == size and a and b),
            None,
        )
        if size in by_size:
            related[name] = related[by_size[size]]
        elif terms is not None:
            related[name] = sum(related[by_size[example[term]]] for term in terms)
        else:
            related[name] = wanted[name]
        by_size.setdefault(size, name)
    return {name: related[name] for name in example}


def _within(size: int, bounds: tuple[Any, Any] | None) -> int:
    return size if bounds is None else int(max(min(size, bounds[1]), bounds[0]))
