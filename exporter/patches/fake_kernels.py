"""What torch's fake kernels use to create data-dependent sizes.

torch stores the context that `get_ctx()` returns in a global variable. Two threads that record would create sizes in
each other's context, and one context would remain set afterwards. A thread that captures has its own context.

Some kernels compute the bounds of a new size with sympy. For sizes of this exporter, they are computed by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensorMode, contexts_of_fake_kernels, fake_kernels
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
    OnImport(QUESTIONS, FunctionCode(of_module(QUESTIONS), "_constrain_range_for_size", _constrain_size)),
    OnImport(SYMBOL_KINDS, FunctionCode(of_module(SYMBOL_KINDS), "symbol_is_type", _is_of_type)),
)
PATCHES: tuple[Patch, ...] = (
    FunctionCode(contexts_of_fake_kernels, "set_ctx_getter", _set_getter, here=captures_here),
    FunctionCode(torch.library, "get_ctx", _get, here=captures_here),
)
