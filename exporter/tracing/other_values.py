"""Whether a program computes the same where it reads other values from tensors, or makes other texts of numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnx_parity.exporter.recording.reads import OF_TEXTS, Altered, Read
from onnx_parity.exporter.tracing.attempt import FailedThere
from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded, compute_the_same
from onnx_parity.exporter.tracing.traced import Traced

__all__ = ["is_right_with_other_texts", "reads_that_matter"]

#: How much of what was read is looked at, each time with a recording.
_MOST_ALTERED = 16
#: The sizes of which texts are tried.
_SIZES_IN_TEXTS = range(10)
#: Records the program with another value; see `branches_on_sizes.Recording`.
_Again = Callable[..., Traced | None]


def reads_that_matter(traced: Traced, again: _Again) -> list[Read]:
    """What was read, without what only decides whether the program raises an error, or makes no difference."""
    mattering = []
    for number, read in enumerate(traced.reads):
        if read.is_guard:
            continue
        if number >= _MOST_ALTERED or read.is_random or not _is_right_with_another(number, traced, again):
            mattering.append(read)
    return mattering


def _is_right_with_another(number: int, traced: Traced, again: _Again) -> bool:
    """Whether the same is recorded with other values of a read. That it fails with the first of them is no proof,
    unless it is a guard; those that follow tell nothing where it fails."""
    read = traced.reads[number]
    dtype = torch.bool if read.answer is not None else read.values[0].dtype
    for kind in Altered.kinds(dtype):
        try:
            other = again(altered=Altered(number, kind))
        except FailedThere:
            if not kind:
                return read.answer is not None and not read.is_asked_by_torch
            continue
        except NotRecorded:
            return False
        if other is None and kind:
            continue
        if other is None or len(other.reads) != len(traced.reads) or not compute_the_same(traced, other):
            return False
    return True


def is_right_with_other_texts(traced: Traced, again: _Again) -> bool:
    """Whether the same is recorded where texts are others, if the program is recorded the same way twice."""
    sizes = [((name, size),) for name in sorted(traced.sizes_in_texts) for size in _SIZES_IN_TEXTS]
    is_same = all(_is_same(traced, Altered(OF_TEXTS, sizes=each), again) for each in ((), *sizes))
    return is_same or not _is_same(traced, None, again)


def _is_same(traced: Traced, altered: Altered | None, again: _Again) -> bool:
    try:
        other = again(altered=altered)
    except (FailedThere, NotRecorded):
        return False
    return other is not None and compute_the_same(traced, other)
