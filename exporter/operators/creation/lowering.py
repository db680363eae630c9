"""New tensors: filled with a number, or evenly spaced numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous, describe
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.registry.results import Contiguous, result_of


@lowering("aten::fill")
def fill(g: Graph, self: Value, value: Operand) -> Value:
    return _filled(g, value)


@lowering("aten::full", "aten::full_like", "aten::new_full")
def full(g: Graph, fill_value: Operand, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return _filled(g, fill_value)


@lowering("aten::scalar_tensor", "prims::scalar_tensor")
def scalar_tensor(g: Graph, s: Number, dtype: object = None) -> Value:
    return g.scalar(s, g.out.dtype)


@lowering("aten::zeros", "aten::zeros_like", "aten::new_zeros")
def zeros(g: Graph, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return _filled(g, 0)


@lowering("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(g: Graph, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return _filled(g, 1)


@lowering("aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided")
def empty(
    g: Graph, self: Value | None = None, size: object = None, stride: object = None, dtype: object = None
) -> Value:
    # The values of uninitialized memory have no meaning: zeros will do.
    return _filled(g, 0)


def _filled(g: Graph, value: Operand) -> Value:
    if isinstance(value, Value):
        return g.expand(g.cast(value, g.out.dtype), g.out.shape)
    return g.full(g.out.shape, value, g.out.dtype)


@lowering("aten::arange")
def arange(g: Graph, end: Number, start: Number = 0, step: Number = 1, dtype: object = None) -> Value:
    """start, start + step, ... below end"""
    numbers = [number for number in (start, end, step) if isinstance(number, (int, float))]
    if len(numbers) == 3:
        return g.const(torch.arange(*numbers, dtype=g.out.dtype))
    indices = g.cast(g.iota(g.out.shape[0]), g.out.dtype)
    by_one, from_zero = isinstance(step, int) and step == 1, isinstance(start, int) and start == 0
    if by_one and from_zero:
        indices.counts = -1
        return indices
    scaled = indices if by_one else g.op("Mul", indices, g.scalar(step, g.out.dtype))
    return scaled if from_zero else g.op("Add", scaled, g.scalar(start, g.out.dtype))


@lowering("aten::linspace")
def linspace(g: Graph, start: Operand, end: Operand, steps: int, dtype: object = None) -> Value:
    """Computed from both ends towards the middle, as in torch, which computes the middle itself from the end"""
    if not isinstance(start, Value) and not isinstance(end, Value):
        return g.const(torch.linspace(start, end, steps, dtype=g.out.dtype))  # type: ignore[arg-type]
    wide = g.out.dtype if g.out.dtype.is_floating_point else torch.float64
    low, high = (g.promote(g.promote(x, dtype=g.out.dtype)[0], dtype=wide)[0] for x in (start, end))
    step = g.op("Div", g.op("Sub", high, low), max(steps - 1, 1))
    indices = torch.arange(steps)
    is_first_half = indices < max(steps // 2, 1)
    offset = g.op("Mul", step, g.const(torch.where(is_first_half, indices, indices - (steps - 1)), wide))
    base = g.where(g.const(is_first_half), low, high)
    return g.cast(g.op("Add", base, offset), g.out.dtype)


@lowering(
    "aten::hann_window", "aten::hamming_window", "aten::blackman_window", "aten::bartlett_window", "aten::kaiser_window"
)  # fmt: skip
def window(g: Graph, window_length: int, periodic: bool = True, dtype: object = None, **factors: float) -> Value:
    made = getattr(torch, g.operator.removeprefix("aten::"))
    return g.const(made(window_length, periodic, **factors, dtype=g.out.dtype))


@lowering("aten::logspace.default")
def logspace(g: Graph, start: float, end: float, steps: int, base: float = 10.0, dtype: object = None) -> Value:
    return g.const(torch.logspace(start, end, steps, base, dtype=g.out.dtype))


@instead_of("aten::_dim_arange", why="torch's decomposition reads the size as a plain int")
def dim_arange(like: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(like.shape[dim], device=like.device)


# --- results ----------------------------------------------------------------------------------------------------------


@result_of("aten::fill.Scalar", "aten::fill.Tensor", why="torch's fake kernel takes 0.6 ms with dynamic sizes")
def fill_result(self: torch.Tensor, value: Any) -> Any:
    numbers = [value] if isinstance(value, torch.Tensor) else []
    fits = all(each.ndim == 0 for each in numbers) and are_contiguous(self, *numbers)
    return Contiguous(self.dtype, tuple(self.shape)) if fits else NotImplemented


@result_of(
    "aten::full_like", "aten::ones_like", "aten::zeros_like", why="torch's fake kernels take 3 ms with dynamic sizes"
)
def like_result(
    self: torch.Tensor,
    *value: Any,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    **options: Any,
) -> Any:
    is_plain = not options and device in (None, describe(self).device) and are_contiguous(self)
    return Contiguous(dtype or self.dtype, tuple(self.shape)) if is_plain else NotImplemented


@result_of("aten::new_ones", "aten::new_zeros", why="torch's fake kernels take 1 ms with dynamic sizes")
def new_result(
    self: torch.Tensor,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    **options: Any,
) -> Any:
    # That another number is not negative is an assumption.
    are_sizes = all(
        each >= 0 if isinstance(each, int) else any(same_size(each, own) for own in self.shape) for each in size
    )
    is_plain = are_sizes and not options and device in (None, describe(self).device)
    return Contiguous(dtype or self.dtype, tuple(size)) if is_plain else NotImplemented


@result_of(
    "aten::arange",
    "aten::arange.start",
    "aten::arange.start_step",
    why="torch's reference asks which end is larger",
    static=False,
)
def arange_result(
    *ends: Any, dtype: torch.dtype | None = None, device: torch.device | None = None, **options: Any
) -> Any:
    start, end, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    if not all(isinstance(each, int | torch.SymInt) for each in (start, end)) or type(step) is not int or step < 1:
        return NotImplemented
    return Contiguous(dtype or torch.int64, ((end - start + step - 1) // step,), device or torch.device("cpu"))
