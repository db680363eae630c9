"""The inputs that an exported model is verified with: the example's, others of the same values, and other sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from exporter.program import Source

__all__ = ["Trial", "other_sizes", "trials"]


@dataclass(frozen=True, slots=True)
class Trial:
    """Arguments to call the program and the model with."""

    #: For a message: "the example inputs".
    what: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Made for the verification. The program may refuse it, which then says nothing of the model.
    invented: bool = True

    @classmethod
    def given(cls, source: Source, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Trial:
        """These arguments, or the example's where there are none."""
        if args is None and kwargs is None:
            return cls("the example inputs", source.args, source.kwargs, invented=False)
        return cls("the arguments", tuple(args or ()), kwargs or {}, invented=False)

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]


def trials(source: Source, keeps_order: bool) -> Iterator[Trial]:
    """The example, and its numbers in another order, which shows what was built in.

    `keeps_order` is asked for by programs that search in sorted sequences: what is sorted stays so.
    """
    yield Trial.given(source, None, None)
    changed = _changed_in_order if keeps_order else _turned_round
    args, kwargs = pytree.tree_map_only(torch.Tensor, changed, (source.args, source.kwargs))
    turned = Trial("the example's numbers in reverse", args, kwargs)
    before = Trial("", source.args, source.kwargs).tensors()
    if any(not torch.equal(a, b) for a, b in zip(turned.tensors(), before, strict=True)):
        yield turned


def _turned_round(tensor: torch.Tensor) -> torch.Tensor:
    """Only floats: ints may be indices or lengths, whose order matters."""
    plain = tensor.detach()
    return plain.flip(list(range(plain.ndim))) if plain.is_floating_point() else plain


def _changed_in_order(tensor: torch.Tensor) -> torch.Tensor:
    """Sorted numbers are drawn towards the least of them; others are turned round."""
    if not (tensor.is_floating_point() and tensor.ndim and _is_sorted(tensor, -1)):
        return _turned_round(tensor)
    least = tensor.detach().narrow(-1, 0, min(1, tensor.shape[-1]))
    return least + (tensor.detach() - least) * 0.75


def _is_sorted(tensor: torch.Tensor, axis: int) -> bool:
    values = tensor.detach().movedim(axis, -1)
    return bool((values[..., 1:] >= values[..., :-1]).all())


def other_sizes(source: Source, keeps_order: bool) -> Iterator[Trial]:
    """Other sizes of the axes that vary: all a little larger, each by another amount; all twice as large; all 1."""
    tensors = Trial("", source.args, source.kwargs).tensors()
    sizes: dict[str, int] = {}
    for position, named in source.axes.inputs.items():
        for axis, name in named.items():
            sizes.setdefault(name, tensors[position].shape[axis])
    if not sizes:
        return
    larger = {name: size + 1 + number for number, (name, size) in enumerate(sizes.items())}
    tried = [sizes]
    for wanted in (larger, {name: 2 * size for name, size in sizes.items()}, dict.fromkeys(sizes, 1)):
        bounded = {name: _within(size, source.axes.ranges.get(name)) for name, size in wanted.items()}
        if bounded not in tried:
            tried.append(bounded)
            yield _resized(source, bounded, keeps_order)


def _within(size: int, bounds: tuple[Any, Any] | None) -> int:
    return size if bounds is None else int(max(min(size, bounds[1]), bounds[0]))


def _resized(source: Source, sizes: Mapping[str, int], keeps_order: bool) -> Trial:
    """The example's values again and again until they fill the size, or as many as it takes."""
    leaves, spec = pytree.tree_flatten((source.args, dict(source.kwargs)))
    number = 0
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for axis, name in source.axes.inputs.get(number, {}).items():
                if leaf.shape[axis]:
                    where = torch.arange(sizes[name], device=leaf.device) % leaf.shape[axis]
                    if keeps_order and not leaf.is_complex() and _is_sorted(leaf, axis):
                        where = where.sort().values
                    leaf = leaf.detach().index_select(axis, where)
            leaves[place] = leaf
            number += 1
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return Trial(", ".join(f"{name}={size}" for name, size in sizes.items()), args, kwargs)
