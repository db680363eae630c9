"""x[i] and torch.zeros(i) where i may vary. Python asks for its number; here it stays a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["SymbolicSubscripts"]

_READ = torch.Tensor.__getitem__
_WRITE = torch.Tensor.__setitem__
_UNPACK = torch._VF._pad_packed_sequence
#: What takes sizes as its first arguments, where programs write `torch.zeros(2, n)` for a tensor n.
_MAKING = frozenset({torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn})


class SymbolicSubscripts(TorchFunctionMode):
    """Takes the sizes among the items of a subscript as `torch.select` does, which gives views to write through.

    Tensors among the sizes of a new tensor are read, into symbols.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is _READ or func is _WRITE:
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(item, torch.SymInt) for item in items):
                view, rest = _selected(args[0], items)
                return func(view, rest, *args[2:])
        if func in _MAKING and any(isinstance(size, torch.Tensor) for size in args):
            args = tuple(size.item() if isinstance(size, torch.Tensor) else size for size in args)
        if func is _UNPACK and _is_all_steps(*args):
            args = (*args[:4], -1)
        return func(*args, **(kwargs or {}))


def _is_all_steps(data: object, batch_sizes: torch.Tensor, batch_first: bool, value: float, steps: object) -> bool:
    """Whether a packed sequence is unpacked to the steps that it has, which need not be said, and takes no symbol."""
    return isinstance(steps, torch.SymInt) and bool(steps.node.expr == batch_sizes.shape[0].node.expr)  # type: ignore[attr-defined]


def _selected(x: torch.Tensor, items: tuple[Any, ...]) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """`x` with the sizes among the items applied, and the other items."""
    whole = x.ndim - sum(map(_axes_of, items))
    axis = 0
    rest: list[Any] = []
    for item in items:
        if isinstance(item, torch.SymInt):
            x = torch.select(x, axis, item)
            continue
        rest.append(item)
        axis += whole if item is Ellipsis else _axes_of(item)
    return x, tuple(rest)


def _axes_of(item: object) -> int:
    """How many axes an item of a subscript speaks of."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.ndim
    return 1
