"""What torch's fake kernels use to create data-dependent sizes.

torch stores the context that `get_ctx()` returns in a global variable. Two threads that record would create sizes in
each other's context, and one context would remain set afterwards. A thread that captures has its own context.

Some kernels compute the bounds of a new size with sympy. For sizes of this exporter, they are computed by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size, Varying, broadcast_size, same_shape, same_size
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.torch_inside.fake_tensors import (
    FakeTensorMode,
    contexts_of_fake_kernels,
    fake_kernels,
    reference_kernels,
)
from onnx_parity.exporter.torch_inside.patch import FunctionCode, OnImport, Patch, of_module
from onnx_parity.exporter.torch_inside.sym_nodes import QUESTIONS, SYMBOL_KINDS, prefixes_of
from onnx_parity.exporter.torch_inside.this_thread import captures_here

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["PATCHES", "WITH_SYMBOLS"]


class _ThisThread(threading.local):
    getter: Callable[[], Any] | None = None


_this_thread = _ThisThread()


@contextmanager
def _set_getter(torchs: Callable[..., Any], ctx_getter: Callable[[], Any]) -> Iterator[None]:
    outer = _this_thread.getter
    _this_thread.getter = ctx_getter
    try:
        yield
    finally:
        _this_thread.getter = outer


def _get(torchs: Callable[[], Any]) -> Any:
    return torchs() if _this_thread.getter is None else _this_thread.getter()


def _symbols_of(mode: FakeTensorMode) -> Symbols | None:
    """The symbols of a recording; None for static sizes, and for a mode of the program itself."""
    return cast("Symbols", mode.shape_env) if isinstance(mode, Fakes) else None


def _nonzero(torchs: Callable[..., Any], mode: FakeTensorMode, func: Any, x: Any) -> Any:
    symbols = _symbols_of(mode)
    if symbols is None or same_size(x.numel(), 0):
        return torchs(mode, func, x)
    count = x.nonzero_memo
    if count is None:
        count = x.nonzero_memo = symbols.new_count(x.shape)
    return x.new_empty_strided((count, x.dim()), (1, count), dtype=torch.int64)


def _masked_select(torchs: Callable[..., Any], mode: FakeTensorMode, func: Any, x: Any, mask: Any) -> Any:
    symbols = _symbols_of(mode)
    return torchs(mode, func, x, mask) if symbols is None else x.new_empty((symbols.new_count(x.shape),))


def _broadcast_shapes(torchs: Callable[..., Any], *shapes: Any) -> Any:
    """The shape that others broadcast to. torch takes sizes that depend on values to be equal, and none of them 1."""
    every = [shape if isinstance(shape, (tuple, list)) else (shape,) for shape in shapes if shape is not None]
    common = _common_of_values(every)
    return torchs(*shapes) if common is None else common


def _common_of_values(shapes: Sequence[Sequence[Size]]) -> list[Size] | None:
    """The shape that shapes broadcast to, if one of its sizes depends on values."""
    common: list[Size | None] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis in range(-len(shape), 0):
            before = common[axis]
            common[axis] = None if before is None else broadcast_size(before, shape[axis])
    known = [size for size in common if size is not None]
    is_of_values = any(isinstance(size, Varying) and not size.node.has_hint() for size in known)
    return known if is_of_values and len(known) == len(common) else None


def _maybe_broadcast(torchs: Callable[..., Any], *args: Any, preserve_cpu_scalar_tensors: bool = True) -> Any:
    """Tensors of one shape. torch leaves those as they are whose sizes depend on values."""
    common = _common_of_values([each.shape for each in args if isinstance(each, torch.Tensor)])
    if common is None:
        return torchs(*args, preserve_cpu_scalar_tensors=preserve_cpu_scalar_tensors)
    least = 1 if preserve_cpu_scalar_tensors else 0
    is_other = [isinstance(x, torch.Tensor) and x.ndim >= least and not same_shape(x.shape, common) for x in args]
    return tuple(x.expand(common) if expands else x for x, expands in zip(args, is_other, strict=True))


def _constrain_size(torchs: Callable[..., Any], size: Any, *limits: Any, **named: Any) -> None:
    from onnx_parity.exporter.sizes.size_node import SizeNode

    if isinstance(size.node, SizeNode):
        size.node.shape_env.constrain(size, *limits, **named)
    else:
        torchs(size, *limits, **named)


def _is_of_type(torchs: Callable[..., bool], symbol: Any, prefix: Any) -> bool:
    """Whether a symbol is of a kind, which its name tells."""
    from onnx_parity.exporter.expressions.expression import Symbol

    if type(symbol) is not Symbol:
        return torchs(symbol, prefix)
    return symbol.name.startswith(prefixes_of(prefix))


WITH_SYMBOLS: tuple[Patch, ...] = (
    FunctionCode(fake_kernels, "nonzero", _nonzero),
    FunctionCode(fake_kernels, "masked_select", _masked_select),
    FunctionCode(reference_kernels, "_broadcast_shapes", _broadcast_shapes),
    FunctionCode(reference_kernels, "_maybe_broadcast", _maybe_broadcast),
    OnImport(QUESTIONS, FunctionCode(of_module(QUESTIONS), "_constrain_range_for_size", _constrain_size)),
    OnImport(SYMBOL_KINDS, FunctionCode(of_module(SYMBOL_KINDS), "symbol_is_type", _is_of_type)),
)
PATCHES: tuple[Patch, ...] = (
    FunctionCode(contexts_of_fake_kernels, "set_ctx_getter", _set_getter, here=captures_here),
    FunctionCode(torch.library, "get_ctx", _get, here=captures_here),
)
