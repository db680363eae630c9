"""Records x[i], x[:n], torch.zeros(n) and torch.tensor([n]) where i and n are symbols or are read from tensors.

Python's own conversions (`int`, `__index__`) would turn a symbol into the example's number. The calls that convert are
replaced here and in `replace/dynamic_sizes.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from onnx_parity.exporter.capture.graph.graph import Varying, same_size
from onnx_parity.exporter.capture.graph.origin import asks_for_its_caller
from onnx_parity.exporter.capture.replace.dynamic_sizes import (
    arange,
    diagonal,
    indices_of_triangle,
    linspace,
    logspace,
    narrow,
    unraveled,
    window,
)
from onnx_parity.exporter.capture.sizes.interpolation import interpolated_by_symbols
from onnx_parity.exporter.capture.sizes.pooled_axes import POOLINGS, pooled_over_axes

__all__ = ["SymbolicSubscripts"]

asks_for_its_caller(__file__)

_READ = torch.Tensor.__getitem__
_WRITE = torch.Tensor.__setitem__
_NARROW = frozenset({torch.narrow, torch.Tensor.narrow})
_WINDOWS = frozenset(
    {torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window}
)
_DIAGONALS = frozenset({torch.diagonal, torch.Tensor.diagonal})
_SPACED: dict[Callable[..., Any], Callable[..., Any]] = {torch.linspace: linspace, torch.logspace: logspace}
_TRIANGLES = {
    torch.tril_indices: functools.partial(indices_of_triangle, torch.tril),
    torch.triu_indices: functools.partial(indices_of_triangle, torch.triu),
}
#: The first parameters of functions to which programs give symbolic numbers by name.
_NAMES: dict[Callable[..., Any], tuple[str, ...]] = {
    torch.arange: ("start", "end", "step"),
    torch.linspace: ("start", "end", "steps"),
    torch.logspace: ("start", "end", "steps", "base"),
    torch.nn.functional.one_hot: ("input", "num_classes"),
    torch.tril_indices: ("row", "col", "offset"),
    torch.triu_indices: ("row", "col", "offset"),
    torch.unravel_index: ("indices", "shape"),
    **dict.fromkeys(_WINDOWS, ("window_length",)),
}
#: As they are outside of a recording, which replaces some in their modules.
_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_INTERPOLATE = torch.nn.functional.interpolate
_UNPACK = torch._VF._pad_packed_sequence
#: Functions that create a tensor from numbers, which may be symbols.
_OF_NUMBERS = frozenset({torch.tensor, torch.as_tensor})
#: Functions that take sizes and indices as numbers, to which programs pass tensors: `torch.zeros(2, n)`.
_TAKING_SIZES = frozenset(
    {
        torch.zeros, torch.ones, torch.empty, torch.full, torch.rand, torch.randn, torch.eye, torch.arange,
        torch.narrow, torch.reshape, torch.select, torch.split, torch.topk,
        *(getattr(torch.Tensor, name) for name in (
            "new_zeros", "new_ones", "new_empty", "new_full", "narrow", "reshape", "view", "expand", "repeat", "select",
            "split", "topk",
        )),
    }
)  # fmt: skip


#: What reads the shape of a tensor.
_OF_SHAPES = frozenset(
    {
        *(vars(torch._C.TensorBase)[name].__get__ for name in ("shape", "ndim")), torch.Tensor.dim, torch.Tensor.size,
        torch.Tensor.numel, torch.Tensor.nelement, torch.Tensor.stride, torch.Tensor.__len__, torch.Tensor.ndimension,
        torch.numel,
    }
)  # fmt: skip


class SymbolicSubscripts(TorchFunctionMode):
    """Applies symbolic numbers in a subscript with `torch.select`. Its result is a view, so it can also be written to.

    Tensors of one int that are given as sizes or as indices become symbols. A function is called with each tensor whose
    shape the program reads.
    """

    def __init__(self, shape_is_read: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._shape_is_read = shape_is_read

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if kwargs and func in _NAMES:
            args, kwargs = _by_place(func, args, kwargs)
        if func is _READ or func is _WRITE:
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            if len(items) == 1 and _is_flag(items[0]):
                # torch would read the flag: it makes a new first axis, whose size is 1 if the flag is true, else 0.
                return func(args[0].unsqueeze(0), (items[0].reshape(1).bool(),), *args[2:])
            if any(isinstance(item, (torch.SymInt, torch.Tensor, slice)) for item in items):
                items = tuple(item if _is_byte(item) else _numbered(item) for item in items)
                if any(isinstance(item, torch.SymInt) for item in items):
                    view, rest = _selected(args[0], items)
                    return func(view, rest, *args[2:])
                return func(args[0], items, *args[2:])
        elif func is torch.arange and any(isinstance(each, (torch.Tensor, torch.SymFloat)) for each in args):
            if (made := _ranged(args, kwargs or {})) is not None:
                return made
            args = tuple(map(_numbered, args))
        elif func in _DIAGONALS:
            given = dict(zip(("self", "offset", "dim1", "dim2"), args, strict=False)) | (kwargs or {})
            offset = _numbered(given.get("offset", 0))
            if isinstance(offset, torch.SymInt):
                return diagonal(args[0], offset, given.get("dim1", 0), given.get("dim2", 1))
            if len(args) > 1:
                args = (args[0], offset, *args[2:])
        elif func is torch.nn.functional.one_hot and len(args) > 1:
            classes = _numbered(args[1])
            if isinstance(classes, torch.SymInt):
                return (args[0].unsqueeze(-1) == torch.arange(cast("int", classes), device=args[0].device)).to(
                    torch.int64
                )
        elif func in _WINDOWS and args:
            length, *options = map(_numbered, args)
            if isinstance(length, torch.SymInt):
                return _window_of(func, length, options, kwargs or {})
        elif func in _TAKING_SIZES:
            of_tensor = isinstance(args[0], torch.Tensor) and func is not torch.arange if args else False
            args = (*args[:1], *map(_numbered, args[1:])) if of_tensor else tuple(map(_numbered, args))
            if func in _NARROW and len(args) == 4 and isinstance(args[2], torch.SymInt):
                return narrow(*args)
        elif func in _OF_NUMBERS and args and _has_parts(args[0]):
            return _assembled(args[0], *args[1:], **(kwargs or {}))
        elif func is torch.Tensor.new_tensor and len(args) == 2 and _has_parts(args[1]):
            like = {"dtype": args[0].dtype, "device": args[0].device}
            return _assembled(args[1], **{**like, **(kwargs or {})})
        elif func in _SPACED and len(args) >= 3:
            args = (*args[:2], _numbered(args[2]), *args[3:])
            if any(isinstance(each, Varying) for each in args) and "out" not in (kwargs or {}):
                return _SPACED[func](*args, **(kwargs or {}))
        elif (
            func is torch.unravel_index
            and len(args) == 2
            and any(isinstance(each, Varying) for each in _listed(args[1]))
        ):
            return unraveled(args[0], _listed(args[1]))
        elif func in _TRIANGLES and any(isinstance(each, Varying) for each in args):
            return _TRIANGLES[func](*args, **(kwargs or {}))
        elif func is _INTERPOLATE:
            if (made := interpolated_by_symbols(args, kwargs or {})) is not None:
                return made
        elif func is _ATTENTION:
            args, kwargs = _scaled_before(args, kwargs or {})
        elif func in POOLINGS:
            if (made := pooled_over_axes(func, args, kwargs or {})) is not None:
                return made
        elif func in _OF_SHAPES:
            self._shape_is_read(args[0])
        elif func is _UNPACK and _is_all_steps(*args):
            args = (*args[:4], -1)
        return func(*args, **(kwargs or {}))


def _by_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, with the numbers that were given by name at their places."""
    if func is torch.arange and "end" in kwargs and "start" not in kwargs and not args:
        args = (0,)
    named = dict(kwargs)
    placed = [*args]
    for name in _NAMES[func][len(args) :]:
        if name not in named:
            break
        placed.append(named.pop(name))
    return tuple(placed), named


def _listed(sizes: Any) -> Sequence[Any]:
    return sizes if isinstance(sizes, (list, tuple)) else [sizes]


def _scaled_before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of an attention whose scale is a plain number: the queries are multiplied by a symbolic one."""
    scale = kwargs.get("scale")
    if not isinstance(scale, Varying):
        return args, kwargs
    if not args:
        return args, {**kwargs, "query": kwargs["query"] * scale, "scale": 1.0}
    return (args[0] * scale, *args[1:]), {**kwargs, "scale": 1.0}


def _window_of(func: Any, length: torch.SymInt, options: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    periodic, *factors = options or [kwargs.get("periodic", True)]
    factors += [kwargs[name] for name in ("alpha", "beta") if name in kwargs]
    return window(func.__name__, length, periodic, factors, kwargs.get("dtype"), kwargs.get("device"))


def _ranged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """A range of floats that are not known; None if all its numbers are integers, or it is of another form."""
    floats = [each for each in args if isinstance(each, torch.SymFloat) or _is_float(each)]
    if not floats or not set(kwargs) <= {"dtype", "device", "out"} or len(args) > 3:
        return None
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    out = kwargs.get("out")
    made = arange(start, end, step, kwargs.get("dtype") if out is None else out.dtype, kwargs.get("device"))
    return made if out is None else torch.add(made, torch.zeros([], dtype=made.dtype), out=out)


def _is_float(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point()


def _is_all_steps(data: object, batch_sizes: torch.Tensor, batch_first: bool, value: float, steps: object) -> bool:
    """Whether a packed sequence is unpacked to its own number of steps. The argument cannot be a symbol, and may then
    be left out."""
    return isinstance(steps, torch.SymInt) and bool(steps.node.expr == batch_sizes.shape[0].node.expr)  # type: ignore[attr-defined]


def _numbered(item: Any) -> Any:
    """The number of a tensor of one int, also inside a slice or a list of sizes; other items unchanged."""
    if isinstance(item, torch.Tensor):
        is_number = item.ndim == 0 and not item.is_floating_point() and item.dtype is not torch.bool
        return item.item() if is_number else item
    if isinstance(item, slice):
        return slice(_end(item.start), _end(item.stop), _end(item.step))
    if type(item) in (list, tuple) and any(isinstance(part, torch.Tensor) for part in item):
        return type(item)(map(_numbered, item))
    return item


def _is_flag(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.ndim == 0 and item.dtype in (torch.bool, torch.uint8)


def _is_byte(item: object) -> bool:
    """Whether an item is a mask for torch, although it has numbers."""
    return isinstance(item, torch.Tensor) and item.dtype is torch.uint8


def _end(end: Any) -> Any:
    """An end of a slice, for which Python accepts tensors of one int with any number of axes."""
    if not isinstance(end, torch.Tensor) or end.ndim == 0:
        return _numbered(end)
    is_int = not end.is_floating_point() and not end.is_complex() and end.dtype is not torch.bool
    return end.reshape(()).item() if is_int and all(same_size(size, 1) for size in end.shape) else end


def _selected(x: torch.Tensor, items: tuple[Any, ...]) -> tuple[torch.Tensor, tuple[Any, ...]]:
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


# --- torch.tensor([n, 2]) ---------------------------------------------------------------------------------------------


def _has_parts(data: Any) -> bool:
    """Whether the data contains symbolic numbers, or lists with tensors, whose memory `torch.tensor` would read."""
    if isinstance(data, (list, tuple)):
        return any(isinstance(part, Varying | torch.Tensor) or _has_parts(part) for part in data)
    return isinstance(data, Varying)


def _assembled(
    data: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> torch.Tensor:
    """The result of `torch.tensor(data)`, built from its parts with operators."""
    parts = _parts_of(data)
    common = dtype or _common_dtype(parts)
    return _stacked(data, common, device)


def _parts_of(data: Any) -> list[Any]:
    return [part for item in data for part in _parts_of(item)] if isinstance(data, (list, tuple)) else [data]


def _common_dtype(parts: list[Any]) -> torch.dtype:
    dtypes = [_dtype_of(part) for part in parts]
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = torch.promote_types(common, dtype)
    return common


def _dtype_of(part: Any) -> torch.dtype:
    if isinstance(part, torch.Tensor):
        return part.dtype
    if isinstance(part, (bool, torch.SymBool)):
        return torch.bool
    return torch.int64 if isinstance(part, (int, torch.SymInt)) else torch.get_default_dtype()


def _stacked(data: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(part, dtype, device) for part in data])
    if isinstance(data, torch.Tensor):
        return data.to(device=device, dtype=dtype).reshape(())
    return torch.scalar_tensor(data, dtype=dtype, device=device)
