"""Of each operator: which alterations are told in which dtypes, by which cases, and what would tell the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from onnx_parity.harness.sensitivity.alterations import DYNAMIC, NEGATIVE, Alteration, Kind
from onnx_parity.harness.sensitivity.telling import Looked

__all__ = ["Row", "rows_of"]

#: What would tell an alteration that cases have, and none tells.
_INPUTS = {
    Kind.DEFAULT: "inputs for which its value makes a difference, or another value",
    Kind.ZERO: "inputs that are not much larger, such as floats(2, 3, low=0, high=1e-2)",
    Kind.NARROWER: "values that fewer bits cannot hold: numbers(...) without bounds, floats(...), or given(...)",
    Kind.SWAPPED: "two inputs that differ",
    Kind.TIES: "equal values: numbers(...) of more elements than it has values",
    Kind.OTHER_END: "inputs whose axes have different sizes and values",
    Kind.EMPTY: "a result that is returned as it is",
    Kind.UNROUNDED: "a cast back, of values that the narrower dtype cannot hold",
    Kind.CONVERTED: "values whose bits are not those of the same number",
}
#: What would be such a case, where there is none.
_CASES = {
    Kind.DEFAULT: "a case that gives another value than the default",
    Kind.OTHER_END: "a case with a negative axis whose place from the front is another",
    Kind.TIES: "a case whose axis is dynamic, with equal values",
    Kind.EMPTY: "a case that names the axis, which has the size 0 as an example or by sizes={...}",
}


class Row(msgspec.Struct, frozen=True):
    """An alteration of an operator."""

    operator: str
    alteration: str
    parameter: str
    where: str
    #: For each dtype, how many cases tell it.
    told: dict[str, int]
    #: For each dtype in which no case tells it, the cases that have the operator so, and cannot tell.
    blind: dict[str, list[str]]
    #: The dtypes in which the operator is declared, and no case has it so.
    missing: list[str]

    @property
    def is_told(self) -> bool:
        """Whether it is told in some dtype, and in each in which a case has it."""
        return bool(self.told) and not self.blind

    @property
    def what_would_tell(self) -> str:
        kind = Kind(self.alteration)
        if self.blind:
            return _INPUTS[kind]
        return _CASES.get(kind, "")

    def __str__(self) -> str:
        return str(Alteration(self.operator, Kind(self.alteration), self.parameter, self.where))


def rows_of(looked: Iterable[Looked]) -> list[Row]:
    """The rows of all operators, in the order of their names."""
    told: defaultdict[Alteration, defaultdict[str, list[tuple[str, bool]]]] = defaultdict(lambda: defaultdict(list))
    dtypes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    due: dict[Alteration, None] = {}
    for each in looked:
        for alteration, tells in each.told:
            told[alteration][each.dtype].append((each.case, tells))
        for operator, parameters in each.parameters.items():
            dtypes[operator][each.dtype] = None
            due |= {Alteration(operator, Kind.DEFAULT, name): None for name in sorted(parameters)}
        for operator in each.reducing:
            due |= {Alteration(operator, Kind.EMPTY, where=where): None for where in ("", DYNAMIC)}
    due |= dict.fromkeys(_of_other_forms(told))
    every = sorted({*due, *told})
    return [_row(alteration, told.get(alteration, {}), dtypes[alteration.operator]) for alteration in every]


def _row(alteration: Alteration, found: Mapping[str, list[tuple[str, bool]]], dtypes: Iterable[str]) -> Row:
    counts = {dtype: sum(tells for _, tells in those) for dtype, those in found.items()}
    return Row(
        alteration.operator,
        alteration.kind.value,
        alteration.parameter,
        alteration.where,
        {dtype: count for dtype, count in counts.items() if count},
        {dtype: [label for label, _ in those] for dtype, those in found.items() if not counts[dtype]},
        [each for each in dtypes if each not in found and alteration.kind is not Kind.NARROWER],
    )


def _of_other_forms(told: Iterable[Alteration]) -> Iterator[Alteration]:
    """What is due for operators that have an axis, or an order of equal values."""
    for alteration in told:
        if alteration.kind is Kind.OTHER_END:
            yield alteration._replace(where=NEGATIVE)
        elif alteration.kind is Kind.TIES:
            yield alteration._replace(where=DYNAMIC)
