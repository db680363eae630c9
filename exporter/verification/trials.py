"""The inputs that an exported model is verified with: the example inputs, other values, and other dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.containers import opened
from onnx_parity.exporter.expressions.multiples import with_bases
from onnx_parity.exporter.request.marked_inputs import AnyNumber, Given, Held, ListOf, Mark, OrNone, is_input
from onnx_parity.exporter.runtime.check_assumptions import Computed
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.verification.sizes import Sizes

__all__ = [
    "Trial",
    "at_sizes",
    "at_sizes_with_other_values",
    "other_decisions",
    "other_sides",
    "other_values",
    "sizes_of",
    "trials",
]


class Trial(msgspec.Struct, frozen=True):
    """Arguments to call the program and the model with."""

    #: A description for messages, such as "the example inputs".
    what: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Whether the inputs were generated. If the program refuses them, that is not an error of the model.
    invented: bool = True

    @classmethod
    def given(cls, source: Source, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Trial:
        """These arguments, or those of the example if none are given."""
        if args is None and kwargs is None:
            return cls("the example inputs", source.args, source.kwargs, invented=False)
        if not isinstance(args, list | tuple):
            args = () if args is None else (args,)
        positional, named = opened((tuple(args), dict(kwargs or {})))
        return cls("the arguments", positional, named, invented=False)

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]


def trials(source: Source) -> Iterator[Trial]:
    """The first inputs to verify a model with: the example; lists of other lengths, None, and other numbers."""
    yield Trial.given(source, None, None)
    if source.layout is not None:
        yield from _other_contents(source)


def other_values(source: Source, keeps_order: bool) -> list[Trial]:
    """The example's values in reverse order, and smaller, of which those count that the program accepts first. They
    reveal results that became constants of the model: a sum or a maximum is the same in any order.

    `keeps_order` is for programs that search sorted sequences: sorted tensors stay sorted.
    """
    before = Trial("", source.args, source.kwargs).tensors()
    in_reverse = _in_reverse(keeps_order)
    changed = [
        Trial(what, *pytree.tree_map_only(torch.Tensor, change, (source.args, source.kwargs)))
        for what, change in (
            ("the example's numbers in reverse, and smaller", lambda given: _smaller(in_reverse(given))),
            ("smaller numbers than in the example", _smaller),
            ("the example's numbers in reverse", in_reverse),
        )
    ]
    return changed if any(not torch.equal(a, b) for a, b in zip(changed[0].tensors(), before, strict=True)) else []


def other_decisions(source: Source) -> Iterator[Trial]:
    """Other values in each input that the program decides by."""
    inputs = source.inputs(source.args, source.kwargs)
    for position in source.looked_at:
        given = inputs[position]
        if not isinstance(given, torch.Tensor) or not given.numel():
            continue
        for other in (_half_changed(given), _negated(given), _larger(given)):
            if not torch.equal(other, given):
                others = [*inputs[:position], other, *inputs[position + 1 :]]
                yield Trial("other values in an input that the program decides by", *source.with_inputs(others))


def other_sides(source: Source) -> Iterator[Trial]:
    """Other values with which the program takes sides of its branches that it does not take with those of the example
    or of the trials before, as far as some are found."""
    given = source.inputs(source.args, source.kwargs)
    inputs = [each for each in given if isinstance(each, torch.Tensor)]
    if not source.conditions or len(inputs) < len(given):
        return
    places = range(len(inputs))
    seen = _answers(inputs, source)
    for change, changed in product(_CHANGES, [{*places}, *({place} for place in places if len(places) > 1)]):
        others = [change(each) if place in changed else each for place, each in enumerate(inputs)]
        answers = _answers(others, source)
        if not answers <= seen:
            seen |= answers
            yield Trial("values with which the program takes another branch", *source.with_inputs(others))


def _answers(inputs: Sequence[Any], source: Source) -> set[tuple[int, bool]]:
    """The truth values of the branches of a program for these inputs, by their numbers, as far as they have any."""
    assert source.recorded is not None
    computed, found = Computed(inputs, source.recorded), set[tuple[int, bool]]()
    for number, condition in enumerate(source.conditions):
        with suppress(RuntimeError, IndexError, ValueError, ZeroDivisionError):
            found.add((number, bool(computed.value(condition))))
    return found


def _other_contents(source: Source) -> Iterator[Trial]:
    """Lists twice as long, of one tensor and of none; None for tensors that may be None; and other numbers."""
    inputs = source.inputs(source.args, source.kwargs)
    assert source.layout is not None
    marks = [leaf.mark if isinstance(leaf, Held) else None for leaf in source.layout.leaves if is_input(leaf)]
    changes: list[tuple[str, type[Mark], Callable[[Any], Given]]] = [
        ("lists twice as long", ListOf, lambda items: [*items, *items]),
        ("lists of one tensor", ListOf, lambda items: items[:1]),
        ("lists of no tensor", ListOf, lambda items: []),
        ("None where it is allowed", OrNone, lambda tensor: None),
        ("other numbers", AnyNumber, lambda number: ~number if number.dtype is torch.bool else number + 1),
    ]
    for what, kind, change in changes:
        if any(isinstance(mark, kind) for mark in marks):
            changed = [
                change(given) if isinstance(mark, kind) else given for mark, given in zip(marks, inputs, strict=True)
            ]
            yield Trial(what, *source.with_inputs(changed))


def _in_reverse(keeps_order: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    return _still_sorted if keeps_order else _reversed


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    """Floats in reverse order. Ints are unchanged, because they may be indices or lengths."""
    plain = tensor.detach()
    return plain.flip(list(range(plain.ndim))) if plain.is_floating_point() or plain.is_complex() else plain


def _half_changed(tensor: torch.Tensor) -> torch.Tensor:
    """The second half along the last axis is 0 where it was not, and 1 where it was: a mask without padding gets some.

    A decision such as `mask.all()` becomes another one. A program that does not accept such values raises an error.
    """
    changed = tensor.detach().clone()
    half = changed[..., changed.shape[-1] // 2 :] if changed.ndim else changed
    half.copy_((half == 0).to(half.dtype))
    return changed


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    """Floats with the other sign, by which `x.sum() > 0` becomes another decision. Ints may be indices or lengths."""
    plain = tensor.detach()
    return -plain if _has_arithmetic(plain) else plain


def _larger(tensor: torch.Tensor) -> torch.Tensor:
    """Floats that are larger, by which `x.max() > 5` becomes another decision."""
    plain = tensor.detach()
    return plain * 16 if _has_arithmetic(plain) else plain


def _filled(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: torch.full_like(tensor.detach(), bool(number) if tensor.dtype is torch.bool else number)


def _moved(by: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Floats that are more, or less, by so much."""
    return lambda tensor: tensor.detach() + by if _has_arithmetic(tensor) else tensor.detach()


def _not_a_number(tensor: torch.Tensor) -> torch.Tensor:
    """Floats of which one is no number."""
    changed = tensor.detach().clone()
    if _has_arithmetic(changed) and changed.numel():
        changed.view(-1)[-1] = torch.nan
    return changed


def _has_arithmetic(tensor: torch.Tensor) -> bool:
    """Whether its elements are floats that torch computes with, which it does not do with those of 8 bits."""
    return tensor.is_floating_point() and tensor.itemsize > 1


#: The changes with which other sides of branches are looked for.
_CHANGES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    _negated, _larger, _half_changed, _filled(0), _moved(1.0), _moved(-1.0), _moved(100.0), _moved(-100.0), _filled(1),
    lambda tensor: _larger(_larger(tensor)), _not_a_number,
)  # fmt: skip


def _still_sorted(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers in reverse order that are not sorted."""
    is_sorted = tensor.is_floating_point() and tensor.ndim and _is_sorted(tensor, -1)
    return tensor.detach() if is_sorted else _reversed(tensor)


def _smaller(tensor: torch.Tensor) -> torch.Tensor:
    """Floats of half the magnitude, or a quarter where they are negative, within the bounds of the example. They keep
    their order and signs, and zeros stay zeros, so that the program accepts them: where a mask is added, 0 is what a
    score must not be moved from, or rounding takes the score. Bools are inverted."""
    plain = tensor.detach()
    if plain.dtype is torch.bool:
        return ~plain
    if not _has_arithmetic(plain) or not (finite := plain[plain.isfinite()]).numel():
        return plain
    least, greatest = finite.aminmax()
    if least == greatest:
        return plain * 0.5
    nearest = least.clamp(min=0) + greatest.clamp(max=0)
    return nearest + (plain - nearest) * torch.where(plain < nearest, 0.25, 0.5).to(plain.dtype)


def _is_sorted(tensor: torch.Tensor, axis: int) -> bool:
    values = tensor.detach().movedim(axis, -1)
    return bool((values[..., 1:] >= values[..., :-1]).all())


def _is_ordered(tensor: torch.Tensor, axis: int) -> bool:
    return _is_sorted(tensor, axis) or _is_sorted(tensor.flip(axis), axis)


def sizes_of(source: Source, further: Mapping[str, Sequence[int]] | None = None) -> Sizes:
    """The sizes of the dynamic axes, and `further` ones that may tell, by their names."""
    inputs = source.inputs(source.args, source.kwargs)
    sizes: dict[str, int] = {}
    for position, named in source.axes.inputs.items():
        given = inputs[position]
        example = given[0] if isinstance(given, list) else given
        assert example is not None, "in the example, inputs that may be None are tensors"
        for axis, name in named.items():
            sizes.setdefault(name, example.shape[axis])
    sizes |= {name: size for name, size in with_bases(sizes).items() if name in source.axes.bases}
    return Sizes(sizes, source.axes.ranges, further)


def at_sizes(source: Source, before: Sizes, sizes: Mapping[str, int], keeps_order: bool) -> Iterator[Trial]:
    """Inputs of these sizes, with the values of the example, of which those count that the program accepts first.

    `before` are the sizes of the example. First, integers that are counts of an axis, such as lengths and offsets, have
    the same share of it, and measured values differ from each other; then all values are the example's own; and then
    positions are within the axes that have become shorter.
    """
    changes: list[tuple[bool, Callable[[torch.Tensor], torch.Tensor]]] = [
        (True, partial(_counted, before.example, sizes)),
        (False, torch.Tensor.detach),
        (False, partial(_shortened, before.example, sizes)),
    ]
    different: list[Trial] = []
    for unlike, changed in changes:
        trial = _resized(source, sizes, keeps_order, unlike=unlike, changed=changed)
        if not any(all(map(torch.equal, trial.tensors(), known.tensors())) for known in different):
            different.append(trial)
            yield trial


def at_sizes_with_other_values(source: Source, before: Sizes, sizes: Mapping[str, int], keeps_order: bool) -> Trial:
    """Inputs of these sizes, with the values of the example in reverse order, and smaller."""
    in_reverse = _in_reverse(keeps_order)

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        return _smaller(in_reverse(_counted(before.example, sizes, tensor)))

    trial = _resized(source, sizes, keeps_order, unlike=True, changed=changed)
    return replace(trial, what=f"{trial.what}, with the example's numbers in reverse, and smaller")


def _counted(before: Mapping[str, int], sizes: Mapping[str, int], tensor: torch.Tensor) -> torch.Tensor:
    """Integers of which the greatest is the size of an axis, as with lengths and offsets, have the same share of it."""
    if _has_integers(tensor) and int(tensor.min()) >= 0:
        greatest = int(tensor.max())
        for name, size in before.items():
            if size == greatest > 1 and sizes[name] != size:
                return (tensor * sizes[name] + size - 1).div(size, rounding_mode="floor").to(tensor.dtype)
    return tensor.detach()


def _shortened(before: Mapping[str, int], sizes: Mapping[str, int], tensor: torch.Tensor) -> torch.Tensor:
    """Integers below the size of an axis, which may be positions in it, are below its new size."""
    if _has_integers(tensor):
        greatest = int(tensor.max())
        within = [size for name, size in sizes.items() if 0 < size <= greatest < before[name]]
        if within:
            return tensor.clamp(max=min(within) - 1)
    return tensor.detach()


def _has_integers(tensor: torch.Tensor) -> bool:
    is_integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)
    return is_integer and tensor.numel() > 0


#: How many elements of a tensor tell whether all are unlike.
_LOOKED_AT = 1024
#: By how much of their distance to the middle the repeated values of an example are moved for each repetition.
_MOVED = 1 / 64


def _resized(
    source: Source,
    sizes: Mapping[str, int],
    keeps_order: bool,
    *,
    unlike: bool,
    changed: Callable[[torch.Tensor], torch.Tensor],
) -> Trial:
    """The values of the example, changed, and repeated or cut to fill each size. For a list, its tensors are resized.

    Where no two elements of an example are alike, `unlike` moves those that are repeated, so that it stays certain
    which are the greatest.
    """

    def resized(tensor: torch.Tensor, named: Mapping[int, str]) -> torch.Tensor:
        tensor = changed(tensor)
        for axis, name in named.items():
            before = tensor.shape[axis]
            if not before:
                # There is nothing to repeat, so that the size would stay 0.
                tensor = tensor.new_ones([*tensor.shape[:axis], sizes[name], *tensor.shape[axis + 1 :]])
                continue
            where = torch.arange(sizes[name], device=tensor.device) % before
            in_order = keeps_order and not tensor.is_complex() and _is_ordered(tensor, axis)
            if in_order:
                # The ends stay: the last offset is the number of indices.
                where = torch.linspace(0, before - 1, sizes[name], device=tensor.device).round().long()
            moves = unlike and not in_order and sizes[name] > before and _are_unlike(tensor)
            tensor = tensor.detach().index_select(axis, where)
            if moves:
                times = torch.arange(sizes[name], device=tensor.device) // before
                least, greatest = tensor.aminmax()
                middle = least + (greatest - least) / 2
                shrunk = (1 - times * _MOVED).to(tensor.dtype).view([-1, *[1] * (tensor.ndim - 1 - axis)])
                tensor = middle + (tensor - middle) * shrunk
        return tensor

    inputs = source.inputs(source.args, source.kwargs)
    for number, given in enumerate(inputs):
        named = source.axes.inputs.get(number, {})
        if isinstance(given, torch.Tensor):
            inputs[number] = resized(given, named)
        elif given is not None:
            # The first tensor keeps its size, so that the sizes within the list differ.
            inputs[number] = [*given[:1], *(resized(item, named) for item in given[1:])]
    what = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return Trial(what, *source.with_inputs(inputs, sizes))


def _are_unlike(tensor: torch.Tensor) -> bool:
    """Whether no two elements are alike, as with measured values; masks and one-hot rows are left as they are. Of many
    elements some are looked at, among which few measured values are alike by chance."""
    values = tensor.detach().flatten()
    values = values[:: -(-values.numel() // _LOOKED_AT) or 1]
    return (
        _has_arithmetic(values)
        and values.numel() > 1
        and bool(values.isfinite().all())
        and values.unique().numel() == values.numel()
    )
