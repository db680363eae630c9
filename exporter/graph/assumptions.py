"""`Assumption`: a condition under which a model computes what the program does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.expressions.expression import UNDEFINED, Condition, Expression, Number, Symbol
from onnx_parity.exporter.expressions.integers_and_reals import FloorDiv
from onnx_parity.exporter.expressions.multiples import multiple_of
from onnx_parity.exporter.graph.graph import Origin, Value
from onnx_parity.exporter.graph.names_of_axes import renamed

__all__ = ["ASSUMPTIONS_HOLD", "METADATA", "Assumption", "LayoutOfInput", "as_json", "assumptions_in"]

#: The key under which a model has its assumptions, as JSON, in its metadata.
METADATA = "onnx_parity.assumptions"
#: The name of the output that tells whether they hold, of a model that computes it.
ASSUMPTIONS_HOLD = "assumptions_hold"


class LayoutOfInput(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How an input lies in memory in the example, and the line of the program that decided something by it."""

    #: The place of the input among those of the program.
    number: int
    example: torch.Tensor
    #: Whether the strides of axes of one element matter too.
    exactly: bool
    #: The condition that an input lies as the example does.
    condition: str
    origin: Origin


class Assumption(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A condition under which a model computes what the program does.

    It is about sizes, `height % 8 == 0`, over the names of dynamic axes; about values that the program decided by, as
    the line of the program spells them, `x.sum() > 0`; or about how an input lies in memory, `x.is_contiguous()`.
    """

    #: The condition, in Python's syntax.
    condition: str
    #: The user's line that asked for it.
    origin: Origin
    #: What the program does where the condition does not hold.
    otherwise: str
    #: Whether the caller stated it, with `export(assume=[...])`.
    is_stated: bool = False
    #: The condition over the names of axes; None if it is about something else.
    of_sizes: Expression | None = None
    #: What is read from tensors, and what it is for the example, which has to be the same; or the condition on numbers
    #: and sizes of it, as symbols of the recording.
    values: Sequence[Value] = ()
    expected: Sequence[torch.Tensor] = ()
    of_values: Expression | None = None
    of_layout: LayoutOfInput | None = None
    #: Whether PyTorch's kernel does otherwise what no program wants.
    is_of_kernels: bool = False

    @property
    def about(self) -> str:
        """What the condition is about: "sizes", "layouts" or "values"."""
        return "sizes" if self.of_sizes is not None else "layouts" if self.of_layout is not None else "values"

    @property
    def where(self) -> str:
        """The line of the program, `model.py:12`, and its module, as far as they are known."""
        return self.origin.full

    def __str__(self) -> str:
        return f"{self.condition}{self.origin.in_brackets}; otherwise {self.otherwise}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def holds_for(self, sizes: Mapping[str, int]) -> bool | None:
        """Whether the condition holds for these sizes of dynamic axes, by their names. None if they do not tell: if the
        condition is about something else, or about an axis whose size is not given."""
        if self.of_sizes is None:
            return None
        known = {symbol: sizes[str(symbol)] for symbol in self.of_sizes.free_symbols if str(symbol) in sizes}
        if len(known) < len(self.of_sizes.free_symbols):
            return None
        try:
            if 0 in known.values() and any(side.at(known) < 0 for side in _compared(self.of_sizes)):
                return False  # What is compared are sizes: `n - 1` is none for an axis that is empty.
            return bool(self.of_sizes.at(known))
        except UNDEFINED:
            return False

    def renamed(self, names: Mapping[str, str]) -> Assumption:
        """The same, with other names of axes."""
        if self.of_sizes is None:
            return self
        bases = {known.base: (name, known) for name in names if (known := multiple_of(name)) is not None}
        symbols: dict[Expression, Expression] = {}
        for each in self.of_sizes.free_symbols:
            if str(each) in bases and str(each) not in names:
                # The name that the axis "8*h" had said what h is; its new one does not.
                name, known = bases[str(each)]
                symbols[each] = FloorDiv.of(Symbol(names[name]) - Number(known.offset), Number(known.factor))
            else:
                symbols[each] = Symbol(renamed(str(each), names))
        condition = self.of_sizes.xreplace(symbols)
        return msgspec.structs.replace(self, condition=str(condition), of_sizes=condition)


def _compared(condition: Expression) -> Iterator[Expression]:
    """The whole numbers that a condition compares, and that are computed from sizes."""
    for each in condition.args:
        if isinstance(each, Condition):
            yield from _compared(each)
        elif each.free_symbols and not each.is_float:
            yield each


def as_json(assumptions: Iterable[Assumption]) -> str:
    """The assumptions as a model has them in its metadata: see docs/assumptions.md."""
    return json.dumps(
        [
            {
                "condition": each.condition,
                "about": each.about,
                "otherwise": each.otherwise,
                # Without the folder, which says something about the machine of the export and not about the model.
                "file": Path(each.origin.file).name,
                "line": each.origin.line,
                "module": each.origin.module,
                "stated": each.is_stated,
            }
            for each in assumptions
        ]
    )


def assumptions_in(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    """The assumptions in the metadata of a model; none if there are none that can be read."""
    try:
        found = json.loads(metadata.get(METADATA, "[]"))
    except ValueError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
