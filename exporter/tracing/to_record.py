"""What is recorded, and how: a program with its arguments, and the decisions of an attempt to record it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from onnx_parity.exporter.graph.decisions import Decision, Decisions, Reconsider
from onnx_parity.exporter.recording.fakes.input_layouts import InputLayout
from onnx_parity.exporter.recording.frozen_sizes import Trial
from onnx_parity.exporter.recording.reads import Altered, AskedAt
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.record_options import RecordOptions
from onnx_parity.exporter.torch_inside.code_objects import place_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression

__all__ = ["Attempt", "ToRecord", "Variant"]


class ToRecord(msgspec.Struct, frozen=True):
    """A program, its arguments, and what the caller chose; the same in every attempt.

    The inputs are the tensors and the marked inputs among the flattened arguments, and are named in this order. Weights
    have the module's names, or those in `weight_names` in the order of `weights_of(program)`.
    """

    program: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    input_names: Sequence[str]
    weight_names: Sequence[str]
    decomposition_of: Callable[[OpOverload], Callable[..., Any] | None]
    options: RecordOptions


class Variant(msgspec.Struct, frozen=True):
    """How a program is run otherwise than in the example, to see what it would do then."""

    #: Questions about sizes that are given the other answer where the program itself asks them.
    denied: frozenset[Expression] = frozenset()
    #: The name of an axis that has the size 0.
    empty: str | None = None
    #: The sizes that dynamic axes have instead of the example's, by name.
    sizes: Mapping[str, int] = {}
    #: Other numbers that it reads from tensors.
    trial: Trial | None = None
    #: What it reads from tensors that has another value.
    altered: Altered | None = None
    #: How inputs lie in memory, by their numbers.
    layouts: Mapping[int, InputLayout] = {}
    #: What is decided by how tensors lie in memory, and is decided otherwise, by its numbers.
    turned: frozenset[int] = frozenset()
    #: Whether the inputs have other sizes than those of the example, which are no symbols.
    is_resized: bool = False
    #: Whether another call of the program comes first, with other tensors.
    is_second_call: bool = False

    @property
    def is_another_side(self) -> bool:
        """Whether only a branch of the program is looked at, so that nothing is checked and no warning is raised."""
        is_other = self.layouts or self.turned or self.is_resized or self.is_second_call or self.altered is not None
        return bool(is_other) or self.is_of_other_sizes

    @property
    def is_of_other_sizes(self) -> bool:
        """Whether the program branches on sizes as it does not in the example."""
        return bool(self.denied or self.sizes) or self.empty is not None


class Attempt(msgspec.Struct, frozen=True):
    """How a program is recorded. The first attempt is the cheapest, and each failure adds the next decision."""

    axes: Axes
    decisions: Decisions = frozenset()
    #: The weights of the module by which the program asks for gradients, by id: autograd sees these too.
    weights: frozenset[int] = frozenset()
    #: The places of functions that were not found before they were called, and that are followed.
    followed: frozenset[str] = frozenset()
    #: The functions whose code is written down otherwise, and the places in them where paths are joined.
    structured: frozenset[str] = frozenset()
    #: The questions on sizes of which both sides are recorded there, and the places of those on values.
    joined: frozenset[Expression] = frozenset()
    joined_at: frozenset[AskedAt] = frozenset()
    #: The splits whose sizes only happen to be numbers that were read from values.
    coincidences: frozenset[int] = frozenset()
    variant: Variant = Variant()

    @property
    def has_both_sides(self) -> bool:
        """Whether both sides of a branch are recorded, of which the example takes one."""
        return bool(self.joined or self.joined_at)

    def has(self, decision: Decision) -> bool:
        return decision in self.decisions

    def reconsidered(self, found: Reconsider) -> Attempt | None:
        """The attempt with the first of the decisions that were asked for and not taken yet; None if all were."""
        for decision in found.decisions:
            made = replace(
                self if self.has(decision) else self.deciding(decision),
                weights=self.weights | found.weights,
                followed=self.followed.union(place_of(code) for _, code in found.codes),
                structured=self.structured | found.structured,
            )
            if made != self:
                return made
        return None

    def deciding(self, decision: Decision) -> Attempt:
        decisions = self.decisions | {decision}
        if decision is Decision.NUMBERS_OF_EXAMPLE and not self.axes.inputs:
            decisions -= {Decision.SYMBOLS}  # Constants need none.
        return replace(self, decisions=decisions)
