"""The inputs that an exported model is verified with: the example inputs, other values, and other dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.containers import opened
from onnx_parity.exporter.request.marked_inputs import AnyNumber, Given, Held, ListOf, Mark, OrNone, is_input
from onnx_parity.exporter.request.size_expressions import evaluated, is_expression
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_inside import pytree

__all__ = ["Trial", "other_sizes", "trials"]


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


def trials(source: Source, keeps_order: bool) -> Iterator[Trial]:
    """The inputs to verify a model with: the example; lists of other lengths, None, and other numbers; the example's
    values in reverse order; and other values within their bounds. The last ones reveal results that became constants of
    the model, since a sum or a maximum is the same in any order.

    `keeps_order` is for programs that search sorted sequences: sorted tensors stay sorted.
    """
    yield Trial.given(source, None, None)
    if source.layout is not None:
        yield from _other_contents(source)
    before = Trial("", source.args, source.kwargs).tensors()
    for what, changed in (
        ("the example's numbers in reverse", _still_sorted if keeps_order else _reversed),
        ("numbers closer to the smallest of the example", _closer_together),
    ):
        trial = Trial(what, *pytree.tree_map_only(torch.Tensor, changed, (source.args, source.kwargs)))
        if any(not torch.equal(a, b) for a, b in zip(trial.tensors(), before, strict=True)):
            yield trial
    inputs = source.inputs(source.args, source.kwargs)
    for position in source.looked_at:
        given = inputs[position]
        if not isinstance(given, torch.Tensor) or not given.numel():
            continue
        for other in (_half_changed(given), _negated(given), _larger(given)):
            if not torch.equal(other, given):
                others = [*inputs[:position], other, *inputs[position + 1 :]]
                yield Trial("other values in an input that the program decides by", *source.with_inputs(others))


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


def _has_arithmetic(tensor: torch.Tensor) -> bool:
    """Whether its elements are floats that torch computes with, which it does not do with those of 8 bits."""
    return tensor.is_floating_point() and tensor.itemsize > 1


def _still_sorted(tensor: torch.Tensor) -> torch.Tensor:
    """Sorted numbers closer together, and other numbers in reverse order."""
    is_sorted = tensor.is_floating_point() and tensor.ndim and _is_sorted(tensor, -1)
    return _closer_together(tensor) if is_sorted else _reversed(tensor)


def _closer_together(tensor: torch.Tensor) -> torch.Tensor:
    """Floats moved towards the smallest. They keep their order and bounds, so that the program accepts them. Bools are
    inverted."""
    plain = tensor.detach()
    if plain.dtype is torch.bool:
        return ~plain
    if not _has_arithmetic(plain) or not (finite := plain[plain.isfinite()]).numel():
        return plain
    least, greatest = finite.aminmax()
    return plain * 0.5 if least == greatest else least + (plain - least) * 0.5


def _is_sorted(tensor: torch.Tensor, axis: int) -> bool:
    values = tensor.detach().movedim(axis, -1)
    return bool((values[..., 1:] >= values[..., :-1]).all())


def _is_ordered(tensor: torch.Tensor, axis: int) -> bool:
    return _is_sorted(tensor, axis) or _is_sorted(tensor.flip(axis), axis)


def other_sizes(source: Source, keeps_order: bool) -> Iterator[list[Trial]]:
    """Trials with other sizes of the dynamic axes: all a little larger, each by another amount; all doubled; all 1.

    For each choice of sizes there are one or two, of which the first counts that the program accepts.

    Sizes that depend on each other change together: an axis whose name is an expression over others has its value; and
    where sizes of the example agree, or one is the sum of two others, that is tried to hold as well.
    """
    inputs = source.inputs(source.args, source.kwargs)
    sizes: dict[str, int] = {}
    for position, named in source.axes.inputs.items():
        given = inputs[position]
        example = given[0] if isinstance(given, list) else given
        assert example is not None, "in the example, inputs that may be None are tensors"
        for axis, name in named.items():
            sizes.setdefault(name, example.shape[axis])
    if not sizes:
        return
    expressions = [name for name in sizes if is_expression(name, sizes)]
    free = {name: size for name, size in sizes.items() if name not in expressions}
    larger = {name: size + 1 + number for number, (name, size) in enumerate(free.items())}
    tried = [sizes]
    for wanted in (larger, {name: 2 * size for name, size in free.items()}, dict.fromkeys(free, 1)):
        for related in (wanted, _as_in_example(free, wanted)):
            bounded = {name: _within(size, source.axes.ranges.get(name)) for name, size in related.items()}
            bounded |= {name: evaluated(name, bounded) for name in expressions}
            if bounded not in tried:
                tried.append(bounded)
                unlike, moved = _resized(source, bounded, keeps_order, unlike=True)
                repeated, _ = _resized(source, bounded, keeps_order, unlike=False)
                yield [unlike, repeated] if moved else [repeated]


def _as_in_example(example: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The wanted sizes, changed so that those are equal that are equal in the example, and sums are sums."""
    related: dict[str, int] = {}
    by_size: dict[int, str] = {}
    for name, size in sorted(example.items(), key=lambda item: item[1]):
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


#: By how much of their distance to the middle the repeated values of an example are moved for each repetition.
_MOVED = 1 / 64


def _resized(source: Source, sizes: Mapping[str, int], keeps_order: bool, *, unlike: bool) -> tuple[Trial, bool]:
    """The values of the example, repeated or cut to fill each size. For a list, its tensors are resized.

    Where no two elements of an example are alike, `unlike` moves those that are repeated, so that it stays certain
    which are the greatest. Returns whether there are such elements too.
    """
    moved = False

    def resized(tensor: torch.Tensor, named: Mapping[int, str]) -> torch.Tensor:
        nonlocal moved
        for axis, name in named.items():
            before = tensor.shape[axis]
            if not before:
                continue
            where = torch.arange(sizes[name], device=tensor.device) % before
            in_order = keeps_order and not tensor.is_complex() and _is_ordered(tensor, axis)
            if in_order:
                where = where.sort().values
            moves = unlike and not in_order and sizes[name] > before and _are_unlike(tensor)
            tensor = tensor.detach().index_select(axis, where)
            if moves:
                moved = True
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
    return Trial(what, *source.with_inputs(inputs, sizes)), moved


def _are_unlike(tensor: torch.Tensor) -> bool:
    """Whether no two elements are alike, as with measured values; masks and one-hot rows are left as they are."""
    values = tensor.detach()
    return (
        _has_arithmetic(values)
        and values.numel() > 1
        and bool(values.isfinite().all())
        and values.unique().numel() == values.numel()
    )
