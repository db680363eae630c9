"""How inputs lie in memory, and for which of them it makes a difference to what is recorded.

Inputs of a model have no layout. A program may ask for that of its tensors, or write in place to what `contiguous` or
`reshape` made of one, which is a copy or not. It is recorded again with each input in other layouts. Where the same is
recorded, for all sizes, or the program fails, nothing depends on them; otherwise the model is right for the layout of
the example.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.assumptions import LayoutOfInput
from onnx_parity.exporter.recording.fakes.input_layouts import InputLayout, spelled_layout
from onnx_parity.exporter.tracing.attempt import FailedThere
from onnx_parity.exporter.tracing.branches_on_sizes import (
    NotRecorded,
    Recording,
    are_the_same,
    branches_that_matter,
)
from onnx_parity.exporter.tracing.layouts_of_results import layouts_that_decide

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.answers import Answer
    from onnx_parity.exporter.tracing.traced import Traced

__all__ = ["layouts_that_matter"]

_Conditions = Callable[..., "Sequence[Answer]"]
#: How often a program is recorded again. What would be tried after that is taken to matter.
_MOST_RECORDINGS = 24


def layouts_that_matter(
    recorded: Traced, branches: Sequence[Answer], again: Recording, conditions: _Conditions, *,
    is_decided_by_kernels: bool,
) -> list[LayoutOfInput]:  # fmt: skip
    """The inputs of which another layout than that of the example has the program do something else. `branches` are
    those of its branches on sizes that matter, and `conditions` finds those on sizes with which kernels decide alike.
    What is decided by torch's kernels is decided by the strides of axes of one element too, which are not tried."""
    origin = recorded.asks_layouts
    assert origin is not None
    assumed = {each.holding for each in branches}
    if recorded.written_views and not is_decided_by_kernels:
        with suppress(FailedThere, NotRecorded):
            with_copies = again(turned=recorded.written_views)
            if with_copies is not None and are_the_same(recorded, with_copies):
                return []  # It is all one with which layouts these are copies.
    given: dict[int, Any] = {number: each.example for number, each in enumerate(recorded.graph.inputs)}
    # Marked inputs have no example that is a tensor.
    examples = {number: each for number, each in given.items() if isinstance(each, torch.Tensor)}
    # Of images, and of the terms of a sum, the strides of axes of one element decide how the result lies.
    exactly = recorded.asks_exactly or len(examples) > 1 or any(each.ndim > 3 for each in examples.values())
    mattering = {number for number, each in examples.items() if each.ndim > 1} if is_decided_by_kernels else set()
    exactly |= is_decided_by_kernels
    for tried, layouts in enumerate(_other_layouts(examples)):
        if mattering.isdisjoint(layouts) and (
            tried >= _MOST_RECORDINGS
            or not _is_same(recorded, assumed, partial(again, layouts=layouts), partial(conditions, layouts=layouts))
        ):
            mattering.update(layouts)
    return [
        LayoutOfInput(
            number=number,
            example=example,
            exactly=exactly,
            condition=spelled_layout(recorded.graph.inputs[number].name, example, exactly=exactly),
            origin=origin,
        )
        for number, example in examples.items()
        if number in mattering
    ]


def _other_layouts(examples: Mapping[int, torch.Tensor]) -> Iterator[dict[int, InputLayout]]:
    """Each input in other layouts than its example's, and then two inputs in one of these, of which only both may
    make a difference, as of the terms of a sum."""
    others = {number: list(InputLayout.unlike(example)) for number, example in examples.items()}
    for number, layouts in others.items():
        yield from ({number: each} for each in layouts)
    for one, other in itertools.combinations(others, 2):
        yield from ({one: each, other: each} for each in others[one] if each in others[other])


def _is_same(recorded: Traced, assumed: set[Any], there: Recording, conditions: _Conditions) -> bool:
    """Whether the same is recorded there, under no more assumptions about sizes."""
    try:
        other = there()
    except FailedThere:
        return True
    except NotRecorded:
        return False
    if other is None:
        return True
    if not are_the_same(recorded, other):
        return False
    # With other sizes, kernels may decide there what they do not decide in the layout of the example.
    deciding = layouts_that_decide(other, there)
    try:
        if deciding and conditions(other, deciding):
            return False
    except CaptureError:
        return False
    known = {each.expression for each in recorded.branches}
    if all(each.expression in known for each in other.branches):
        return True
    return {each.holding for each in branches_that_matter(other, there)} <= assumed
