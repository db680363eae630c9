"""What a recorded program is right for: the conditions that were decided by the example, and what is said about them.

1. A condition whose other side computes the same, or raises an error of the program's own, is no assumption.
2. A condition that the caller stated with `assume` is an assumption of the model, and nothing is said.
3. Any other one is an assumption with a warning, or an error with `strict=True`.

A condition that leaves a dynamic axis only one size, or that only the sizes 0 and 1 of the example meet, is an error
before that (`capture_errors.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from onnx_parity.exporter.errors import ArgumentError, FrozenValueError
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.graph.graph import Origin
from onnx_parity.exporter.recording.reads import Read
from onnx_parity.exporter.recording.values_read import TracerWarning

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression
    from onnx_parity.exporter.sizes.answers import Answer

__all__ = ["assumptions_of", "spelled"]


class _Found(msgspec.Struct, frozen=True):
    """An assumption, and what is said about it."""

    assumption: Assumption
    text: str


def assumptions_of(
    branches: Sequence[Answer],
    reads: Sequence[Read],
    axis_names: Mapping[str, str],
    *,
    stated: Sequence[str],
    strict: bool,
) -> list[Assumption]:
    """The assumptions of a recording, from its branches on sizes and what it read, of which those are left out that do
    not matter. Warns of those that the caller did not state; raises `FrozenValueError` instead if `strict`."""
    found = [*_of_reads(reads), *_of_branches(branches, axis_names)]
    holds = _Stated(stated, [*axis_names.values()], [each.assumption.condition for each in found])
    assumptions: dict[tuple[str, Origin, Expression | None, tuple[int, ...]], Assumption] = {}
    for each in found:
        assumption, origin = each.assumption, each.assumption.origin
        if holds.implies(assumption):
            assumption = msgspec.structs.replace(assumption, is_stated=True)
        elif strict:
            raise FrozenValueError(each.text)
        else:
            warnings.warn_explicit(each.text, TracerWarning, origin.file or "<unknown>", origin.line)
        if assumption.condition:
            # One line of a loop asks the same of other values each time, and `0 < number < 3` asks twice.
            values = tuple(map(id, assumption.values))
            assumptions.setdefault((assumption.condition, origin, assumption.of_values, values), assumption)
    return [*assumptions.values()]


def spelled(expression: Expression, axis_names: Mapping[str, str]) -> str:
    """An expression with the user's names for sizes."""
    return str(_over_axes(expression, axis_names))


def _over_axes(expression: Expression, axis_names: Mapping[str, str]) -> Expression:
    """The expression over the names of axes. Other numbers, which depend on values, are counted."""
    from onnx_parity.exporter.expressions.expression import Symbol

    others = sorted(str(each) for each in expression.free_symbols if str(each) not in axis_names)
    names = {**axis_names, **{each: f"number_{place}" for place, each in enumerate(others, 1)}}
    return expression.xreplace({each: Symbol(names[str(each)]) for each in expression.free_symbols})


def _of_reads(reads: Sequence[Read]) -> Iterator[_Found]:
    for read in reads:
        yield _Found(
            Assumption(
                condition=read.condition,
                origin=read.origin,
                otherwise="the program goes on with another value",
                values=read.values,
                expected=read.tensors if read.holding is None else (),
                of_values=read.holding,
            ),
            read.text,
        )


def _of_branches(branches: Sequence[Answer], axis_names: Mapping[str, str]) -> Iterator[_Found]:
    for branch in branches:
        condition, origin = _over_axes(branch.holding, axis_names), branch.origin
        is_of_axes = all(str(each) in axis_names for each in branch.expression.free_symbols)
        asked, otherwise = "the program branches on a dynamic size", "the program takes another branch"
        advice = "Branch on something that is not dynamic, export one model for each branch"
        if branch.is_about_copy:
            asked = "what a later write in place changes depends on whether there is a copy for a dynamic size"
            otherwise = "the program writes to the tensor itself"
            advice = "Write to a clone"
        elif not branch.by_user:
            asked, otherwise = "PyTorch branches on a dynamic size", "PyTorch computes this line in another way"
        yield _Found(
            Assumption(
                condition=str(condition),
                origin=origin,
                otherwise=otherwise,
                of_sizes=condition if is_of_axes else None,
            ),
            f"{asked}{origin.placed}: {spelled(branch.expression, axis_names)} is {branch.answer} in the example, and "
            f"the exported model takes that branch for every size. {advice}, or state what always holds: "
            f"assume=[{str(condition)!r}]",
        )


class _Stated:
    """The conditions that the caller states."""

    def __init__(self, stated: Sequence[str], axes: Sequence[str], found: Sequence[str]) -> None:
        """Raises `ArgumentError` for a text that is neither a condition over dynamic axes nor one of those found."""
        self._texts = {" ".join(each.split()) for each in stated}
        self._conditions: list[Expression] = []
        if not stated:
            return
        from onnx_parity.exporter.expressions.conditions import And
        from onnx_parity.exporter.expressions.parsing import NotACondition, parse_condition

        for text in stated:
            if " ".join(text.split()) in found:
                continue
            try:
                condition = parse_condition(text)
            except NotACondition:
                raise ArgumentError(
                    f"assume has {text!r}, which is no condition over the sizes of dynamic axes, such as "
                    f"'{axes[0] if axes else 'batch'} > 1', and none over values that the program decides by"
                    f"{_listed(found)}"
                ) from None
            unknown = sorted(str(each) for each in condition.free_symbols if str(each) not in axes)
            if unknown:
                raise ArgumentError(
                    f"assume has {text!r}, but {unknown[0]!r} is no dynamic axis: the dynamic axes are "
                    f"{', '.join(map(repr, dict.fromkeys(axes))) or 'none'}"
                )
            self._conditions += condition.args if isinstance(condition, And) else [condition]

    def implies(self, assumption: Assumption) -> bool:
        if assumption.condition in self._texts:
            return True
        condition = assumption.of_sizes
        if condition is None or not self._conditions:
            return False
        from onnx_parity.exporter.expressions.solving import follows_from

        return follows_from(condition, self._conditions)


def _listed(conditions: Sequence[str]) -> str:
    return f": {', '.join(repr(each) for each in dict.fromkeys(conditions) if each)}" if any(conditions) else ""
