"""Records x[i] and x[:n], and calls of functions that take numbers, where these are symbols or read from tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.sizes.symbolic_numbers import function_with_symbolic_numbers, read_number
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.tensors import TensorBase

__all__ = ["SymbolicSubscripts"]

asks_for_its_caller(__file__)

_READ = torch.Tensor.__getitem__
_WRITE = torch.Tensor.__setitem__
#: What reads the shape of a tensor.
_OF_SHAPES = frozenset(
    {
        *(vars(TensorBase)[name].__get__ for name in ("shape", "ndim")), torch.Tensor.dim, torch.Tensor.size,
        torch.Tensor.numel, torch.Tensor.nelement, torch.Tensor.stride, torch.Tensor.__len__, torch.Tensor.ndimension,
        torch.numel,
    }
)  # fmt: skip


class SymbolicSubscripts(TorchFunctionMode):
    """Applies symbolic numbers in a subscript with `torch.select`. Its result is a view, so it can also be written to.

    Tensors of one int that are given as sizes or as indices become symbols. A function is called with each tensor whose
    shape the program reads, and one with what makes each other call, and the call.
    """

    def __init__(self, shape_is_read: Callable[[torch.Tensor], None], call: Callable[..., Any]) -> None:
        super().__init__()
        self._shape_is_read = shape_is_read
        self._call = call
        #: What is called in the place of the functions that the program has called so far.
        self._known: dict[Callable[..., Any], Callable[..., Any] | None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _OF_SHAPES:
            self._shape_is_read(args[0])
            if func != torch.Tensor.stride:
                return func(*args, **(kwargs or {}))
        return self._call(self._called, func, args, kwargs or {})

    def _called(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is _READ or func is _WRITE:
            return _apply_subscript(func, *args)
        try:
            ours = self._known[func]
        except KeyError:
            ours = self._known[func] = function_with_symbolic_numbers(func)
        made = NotImplemented if ours is None else ours(func, *args, **kwargs)
        return func(*args, **kwargs) if made is NotImplemented else made


def _apply_subscript(func: Callable[..., Any], x: torch.Tensor, subscript: Any, *value: Any) -> Any:
    items = subscript if isinstance(subscript, tuple) else (subscript,)
    if len(items) == 1 and _is_flag(items[0]):
        # torch would read the flag: it makes a new first axis, whose size is 1 if the flag is true, else 0.
        return func(x.unsqueeze(0), (items[0].reshape(1).bool(),), *value)
    if not any(isinstance(item, (torch.SymInt, torch.Tensor, slice)) for item in items):
        return func(x, subscript, *value)
    items = tuple(item if _is_byte(item) else _place(item) for item in items)
    if any(isinstance(item, torch.SymInt) for item in items):
        x, items = _select_places(x, items)
    return func(x, items, *value)


def _place(item: Any) -> Any:
    """The number of a tensor of one int, also inside a slice; other items unchanged."""
    if isinstance(item, slice):
        return slice(_end(item.start), _end(item.stop), _end(item.step))
    return read_number(item)


def _is_flag(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.ndim == 0 and item.dtype in (torch.bool, torch.uint8)


def _is_byte(item: object) -> bool:
    """Whether an item is a mask for torch, although it has numbers."""
    return isinstance(item, torch.Tensor) and item.dtype is torch.uint8


def _end(end: Any) -> Any:
    """An end of a slice, for which Python accepts tensors of one int with any number of axes."""
    if not isinstance(end, torch.Tensor) or end.ndim == 0:
        return read_number(end)
    is_int = not end.is_floating_point() and not end.is_complex() and end.dtype is not torch.bool
    return end.reshape(()).item() if is_int and all(same_size(size, 1) for size in end.shape) else end


def _select_places(x: torch.Tensor, items: tuple[Any, ...]) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """`x` with the symbolic numbers among the items applied, and the remaining items."""
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
    """How many axes an item of a subscript indexes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.ndim
    return 1
