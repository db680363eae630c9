"""What a recorded program is right for: the conditions that were decided by the example, and what is said about them.

1. A condition whose other side computes the same, or raises an error of the program's own, is no assumption.
2. A condition that the caller stated with `assume` is an assumption of the model, and nothing is said. So are the
   limits that the caller declares for the size of an axis, within which all questions are answered.
3. That an input is contiguous is an assumption, and nothing is said: all that a runtime gives to a model is so.
4. So is that PyTorch's kernel computes what the operator is defined to compute (`sizes/defined_where.py`).
5. Any other one is an assumption with a warning, or an error with `strict=True`.

A condition that leaves a dynamic axis only one size, or that only the sizes 0 and 1 of the example meet, is an error
before that (`capture_errors.py`).
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from onnx_parity.exporter.errors import ArgumentError, FrozenValueError
from onnx_parity.exporter.expressions.multiples import multiple_of, with_bases
from onnx_parity.exporter.graph.assumptions import Assumption, LayoutOfInput
from onnx_parity.exporter.graph.graph import Input, Origin
from onnx_parity.exporter.recording.reads import Read
from onnx_parity.exporter.recording.values_read import TracerWarning
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.sizes.answers import declared_range

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression
    from onnx_parity.exporter.sizes.answers import Answer

__all__ = ["DeclaredSize", "assumptions_of", "declared_sizes", "not_stated", "reads_not_stated", "spelled"]


class DeclaredSize(msgspec.Struct, frozen=True):
    """The size of a dynamic axis, as the caller declares it."""

    name: str
    example: int
    least: float
    greatest: float


class _Found(msgspec.Struct, frozen=True):
    """An assumption, and what is said about it."""

    assumption: Assumption
    text: str


def assumptions_of(
    branches: Sequence[Answer],
    reads: Sequence[Read],
    layouts: Sequence[LayoutOfInput],
    axis_names: Mapping[str, str],
    *,
    declared: Sequence[DeclaredSize],
    stated: Sequence[str],
    strict: bool,
) -> list[Assumption]:
    """The assumptions of a recording, from its branches on sizes, what it read and how its inputs lie in memory, of
    which those are left out that do not matter. Warns of those that the caller did not state; raises
    `FrozenValueError` instead if `strict`."""
    found = [*_of_reads(reads), *_of_branches(branches, axis_names), *_of_layouts(layouts)]
    named = [each for each in declared if each.name in axis_names.values()]
    sizes = {each.name: each.example for each in named}
    holds = _Stated(stated, [*axis_names.values()], [each.assumption.condition for each in found], sizes)
    assumptions: dict[tuple[str, Origin, Expression | None, tuple[int, ...]], Assumption] = {}
    for each in found:
        assumption, origin = each.assumption, each.assumption.origin
        if holds.implies(assumption):
            assumption = msgspec.structs.replace(assumption, is_stated=True)
        elif assumption.is_of_kernels:
            pass  # No program wants what PyTorch does otherwise.
        elif assumption.of_layout is not None and assumption.of_layout.example.is_contiguous():
            pass  # It holds for all that a runtime gives to a model.
        elif strict:
            raise FrozenValueError(each.text)
        else:
            warnings.warn_explicit(each.text, TracerWarning, origin.file or "<unknown>", origin.line)
        if assumption.condition:
            # One line of a loop asks the same of other values each time, and `0 < number < 3` asks twice.
            values = tuple(map(id, assumption.values))
            assumptions.setdefault((assumption.condition, origin, assumption.of_values, values), assumption)
    answered = [each.of_sizes for each in assumptions.values()]
    return [*assumptions.values(), *holds.beside(answered), *_of_limits(named), *_of_multiples(named)]


def not_stated(branches: Sequence[Answer], axis_names: Mapping[str, str], stated: Sequence[str]) -> list[Answer]:
    """The branches whose side does not follow from the conditions on sizes that the caller states."""
    conditions = [part for text in stated for part in _parsed(text, [*axis_names.values()]) or ()]
    if not conditions:
        return [*branches]
    from onnx_parity.exporter.expressions.solving import follows_from

    return [each for each in branches if not follows_from(_over_axes(each.holding, axis_names), conditions)]


def reads_not_stated(reads: Sequence[Read], stated: Sequence[str]) -> list[Read]:
    """What was read, without that of which the caller states what it is."""
    texts = {*map(_spelled_alike, stated)}
    return [each for each in reads if not texts or _spelled_alike(each.condition) not in texts]


def declared_sizes(axes: Axes, inputs: Sequence[Input]) -> list[DeclaredSize]:
    """The dynamic axes, with their sizes in the example and the limits that are declared for them."""
    found: dict[str, DeclaredSize] = {}
    for number, named in axes.inputs.items():
        for axis, name in named.items():
            limits = declared_range(axes.ranges.get(name))
            least = 0 if axes.are_torchs and limits.lower <= 2 else limits.lower
            found.setdefault(name, DeclaredSize(name, inputs[number].example.shape[axis], least, limits.upper))
    examples = with_bases({each.name: each.example for each in found.values()})
    # What is declared of these is declared of the axes that are multiples of them.
    bases = [DeclaredSize(name, examples[name], 0, math.inf) for name in sorted(axes.bases)]
    return [*found.values(), *bases]


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
        elif branch.otherwise:
            asked, otherwise = "PyTorch's kernel does something else for some sizes", branch.otherwise
        elif not branch.by_user:
            asked, otherwise = "PyTorch branches on a dynamic size", "PyTorch computes this line in another way"
        yield _Found(
            Assumption(
                condition=str(condition),
                origin=origin,
                otherwise=otherwise,
                of_sizes=condition if is_of_axes else None,
                is_of_kernels=bool(branch.otherwise),
            ),
            f"{asked}{origin.placed}: {spelled(branch.expression, axis_names)} is {branch.answer} in the example, and "
            f"the exported model takes that branch for every size. {advice}, or state what always holds: "
            f"assume=[{str(condition)!r}]",
        )


def _stated(condition: Expression, otherwise: str) -> Assumption:
    """A condition on sizes that the caller stated or declared, and no line of the program asked for."""
    return Assumption(
        condition=str(condition), origin=Origin("", 0), otherwise=otherwise, is_stated=True, of_sizes=condition
    )


def _of_limits(declared: Sequence[DeclaredSize]) -> Iterator[Assumption]:
    """The limits that are declared for sizes: the program is followed within them."""
    limited = [each for each in declared if each.least > 0 or each.greatest < math.inf]
    if not limited:
        return
    from onnx_parity.exporter.expressions.conditions import GreaterOrEqual, LessOrEqual
    from onnx_parity.exporter.expressions.expression import Number, Symbol

    for each in limited:
        for compared, limit in ((GreaterOrEqual, each.least), (LessOrEqual, each.greatest)):
            if 0 < limit < math.inf:
                condition = compared.of(Symbol(each.name), Number(int(limit)))
                yield _stated(condition, "the axis is not within the limits that were declared for it")


def _of_multiples(declared: Sequence[DeclaredSize]) -> Iterator[Assumption]:
    """That axes are multiples of sizes that no axis has itself, as their names declare: "8*h" of h."""
    names = {each.name for each in declared}
    first: dict[str, Expression] = {}
    for each in declared:
        known = multiple_of(each.name)
        if known is None or known.base not in names:
            continue
        from onnx_parity.exporter.expressions.conditions import Equal
        from onnx_parity.exporter.expressions.expression import Number, Symbol
        from onnx_parity.exporter.expressions.integers_and_reals import FloorDiv, Mod

        size, factor = Symbol(each.name), Number(known.factor)
        if known.base in first:
            condition = Equal.of(size, first[known.base] * factor + known.offset)
            otherwise = f"the axis {each.name!r} has another size than the other axes give"
        else:
            first[known.base] = FloorDiv.of(size - Number(known.offset), factor)
            condition = Equal.of(Mod.of(size, factor), Number(known.offset % known.factor))
            rest = f", and {known.offset}" if known.offset else ""
            otherwise = f"the size of the axis {each.name!r} is not {known.factor} times a whole number{rest}"
        if condition.free_symbols:
            yield _stated(condition, otherwise)


def _of_layouts(layouts: Sequence[LayoutOfInput]) -> Iterator[_Found]:
    for each in layouts:
        yield _Found(
            Assumption(
                condition=each.condition,
                origin=each.origin,
                otherwise="the program does something else with it",
                of_layout=each,
            ),
            f"what the program does depends on how an input lies in memory{each.origin.placed}, which a model is not "
            f"told: {each.condition} in the example, and the exported model takes every input to lie so. Use "
            "input.clone(memory_format=torch.contiguous_format), or state what always holds: "
            f"assume=[{each.condition!r}]",
        )


class _Stated:
    """The conditions that the caller states."""

    def __init__(
        self, stated: Sequence[str], axes: Sequence[str], found: Sequence[str], sizes: Mapping[str, int]
    ) -> None:
        """`sizes` are those of the axes in the example.

        Raises `ArgumentError` for a text that is neither a condition over dynamic axes nor one of those found, and for
        a condition that does not hold for the example.
        """
        self._texts = set(map(_spelled_alike, stated))
        self._conditions: list[Expression] = []
        if not stated:
            return
        of_program = set(map(_spelled_alike, found))
        for text in stated:
            if _spelled_alike(text) in of_program:
                continue
            parts = _parsed(text, axes)
            if parts is None:
                raise ArgumentError(
                    f"assume has {text!r}, which is no condition over the sizes of dynamic axes, such as "
                    f"'{axes[0] if axes else 'batch'} > 1', and none over values that the program decides by"
                    f"{_listed(found)}"
                )
            symbols = {symbol for part in parts for symbol in part.free_symbols}
            unknown = sorted(str(each) for each in symbols if str(each) not in axes)
            if unknown:
                raise ArgumentError(
                    f"assume has {text!r}, but {unknown[0]!r} is no dynamic axis: the dynamic axes are "
                    f"{', '.join(map(repr, dict.fromkeys(axes))) or 'none'}"
                )
            known = {symbol: sizes[str(symbol)] for symbol in symbols if str(symbol) in sizes}
            if known.keys() == symbols and not all(part.holds_at(known) for part in parts):
                of_example = " and ".join(f"{name} is {size}" for name, size in known.items())
                raise ArgumentError(
                    f"assume has {text!r}, which does not hold for the example, where {of_example}: state a condition "
                    "that holds for all that the model will be given, or export with another example"
                )
            self._conditions += parts

    def implies(self, assumption: Assumption) -> bool:
        if self._texts and _spelled_alike(assumption.condition) in self._texts:
            return True
        condition = assumption.of_sizes
        if condition is None or not self._conditions:
            return False
        from onnx_parity.exporter.expressions.solving import follows_from

        return follows_from(condition, self._conditions)

    def beside(self, answered: Sequence[Expression | None]) -> Iterator[Assumption]:
        """What was stated of sizes and is none of these conditions: the model is not tried, nor run, otherwise."""
        for condition in self._conditions:
            if condition not in answered:
                yield _stated(condition, "the sizes are not those that were stated with assume")


def _parsed(text: str, axes: Sequence[str]) -> Sequence[Expression] | None:
    """The conditions over axes that a text states together; None if it is no such condition."""
    from onnx_parity.exporter.expressions.conditions import And
    from onnx_parity.exporter.expressions.parsing import NotACondition, over_axes, parse_condition

    try:
        condition = over_axes(parse_condition(text), axes)
    except NotACondition:
        return None
    return condition.args if isinstance(condition, And) else [condition]


def _spelled_alike(condition: str) -> str:
    """A condition as Python would write it: a line of the program may have other spaces and brackets."""
    try:
        return ast.unparse(ast.parse(condition.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError):
        return " ".join(condition.split())


def _listed(conditions: Sequence[str]) -> str:
    return f": {', '.join(repr(each) for each in dict.fromkeys(conditions) if each)}" if any(conditions) else ""
