"""torch's functions that take plain numbers, for symbolic ones: torch.zeros(n), torch.linspace(-1, 1, n), F.one_hot.

Python's own conversions (`int`, `__index__`) would turn a symbol into the example's number. Each function here has the
parameters of torch's, so that numbers may be given by name too, and returns `NotImplemented` where torch's serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.graph.origin import asks_for_its_caller
from onnx_parity.exporter.operators.pooled_axes import POOLINGS, pooled_over_axes
from onnx_parity.exporter.operators.recorded import dynamic_sizes, fourier_transforms
from onnx_parity.exporter.sizes.symbolic_numbers import numbered, with_symbolic_numbers

__all__: list[str] = []

asks_for_its_caller(__file__)

_Function = Callable[..., Any]

# --- tensors of sizes -------------------------------------------------------------------------------------------------


@with_symbolic_numbers(torch.zeros, torch.ones, torch.empty, torch.full, torch.rand, torch.randn, torch.eye)
def _of_sizes(torchs: _Function, *args: Any, **options: Any) -> Any:
    return torchs(*map(numbered, args), **options)


@with_symbolic_numbers(
    torch.reshape, torch.select, torch.split, torch.topk,
    *(getattr(torch.Tensor, name) for name in (
        "new_zeros", "new_ones", "new_empty", "new_full", "reshape", "view", "expand", "repeat", "select", "split",
        "topk",
    )),
)  # fmt: skip
def _of_tensor_and_sizes(torchs: _Function, *args: Any, **options: Any) -> Any:
    return torchs(*args[:1], *map(numbered, args[1:]), **options)


@with_symbolic_numbers(torch.narrow, torch.Tensor.narrow)
def _narrow(torchs: _Function, input: torch.Tensor, dim: Any, start: Any, length: Any) -> Any:
    dim, start, length = map(numbered, (dim, start, length))
    if isinstance(start, torch.SymInt):
        return dynamic_sizes.narrow(input, dim, start, length)
    return torchs(input, dim, start, length)


@with_symbolic_numbers(torch.diagonal, torch.Tensor.diagonal)
def _diagonal(torchs: _Function, input: torch.Tensor, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Any:
    offset = numbered(offset)
    if isinstance(offset, torch.SymInt):
        return dynamic_sizes.diagonal(input, offset, dim1, dim2)
    return torchs(input, offset, dim1, dim2)


@with_symbolic_numbers(torch._VF._pad_packed_sequence)
def _unpack(
    torchs: _Function, data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: float, steps: Any
) -> Any:
    if not isinstance(steps, torch.SymInt):
        return NotImplemented
    return dynamic_sizes.unpacked(data, batch_sizes, batch_first, value, steps)


# --- ranges -----------------------------------------------------------------------------------------------------------


@with_symbolic_numbers(torch.arange)
def _arange(torchs: _Function, *args: Any, **given: Any) -> Any:
    if "end" in given and len(args) < 2:
        args = (*(args or (given.pop("start", 0),)), given.pop("end"))
    if "step" in given and len(args) == 2:
        args = (*args, given.pop("step"))
    if any(isinstance(each, (torch.Tensor, torch.SymFloat)) for each in args):
        made = _range_of_floats(args, given)
        if made is not None:
            return made
    return torchs(*map(numbered, args), **given)


def _range_of_floats(args: tuple[Any, ...], options: dict[str, Any]) -> torch.Tensor | None:
    """A range of floats that are not known; None if all its numbers are integers, or it is of another form."""
    floats = [
        each
        for each in args
        if isinstance(each, torch.SymFloat) or (isinstance(each, torch.Tensor) and each.is_floating_point())
    ]
    if not floats or not set(options) <= {"dtype", "device", "out"} or len(args) > 3:
        return None
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    out = options.get("out")
    dtype = options.get("dtype") if out is None else out.dtype
    made = dynamic_sizes.arange(start, end, step, dtype, options.get("device"))
    return made if out is None else torch.add(made, torch.zeros([], dtype=made.dtype), out=out)


@with_symbolic_numbers(torch.linspace, torch.logspace)
def _spaced(torchs: _Function, start: Any, end: Any, steps: Any, *base: Any, **options: Any) -> Any:
    steps = numbered(steps)
    if "out" in options or not any(isinstance(each, Varying) for each in (start, end, steps)):
        return torchs(start, end, steps, *base, **options)
    ours = dynamic_sizes.linspace if torchs is torch.linspace else dynamic_sizes.logspace
    return ours(start, end, steps, *base, **options)


@with_symbolic_numbers(
    torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window
)
def _window(torchs: _Function, window_length: Any, *settings: Any, **options: Any) -> Any:
    length, *given = map(numbered, (window_length, *settings))
    if not isinstance(length, torch.SymInt):
        return torchs(length, *given, **options)
    periodic, *factors = given or [options.get("periodic", True)]
    factors += [options[name] for name in ("alpha", "beta") if name in options]
    name = torchs.__name__
    return dynamic_sizes.window(name, length, periodic, factors, options.get("dtype"), options.get("device"))


# --- indices ----------------------------------------------------------------------------------------------------------


@with_symbolic_numbers(torch.tril_indices, torch.triu_indices)
def _triangle(torchs: _Function, row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
    if not any(isinstance(each, Varying) for each in (row, col, offset)):
        return NotImplemented
    part = torch.tril if torchs is torch.tril_indices else torch.triu
    return dynamic_sizes.indices_of_triangle(part, row, col, offset, **options)


@with_symbolic_numbers(torch.unravel_index)
def _unravel_index(torchs: _Function, indices: torch.Tensor, shape: Any) -> Any:
    sizes: Sequence[Any] = shape if isinstance(shape, (list, tuple)) else [shape]
    is_symbolic = any(isinstance(each, Varying) for each in sizes)
    return dynamic_sizes.unraveled(indices, sizes) if is_symbolic else NotImplemented


@with_symbolic_numbers(F.one_hot)
def _one_hot(torchs: _Function, input: torch.Tensor, num_classes: Any = -1) -> Any:
    classes = numbered(num_classes)
    if not isinstance(classes, torch.SymInt):
        return torchs(input, classes)
    return (input.unsqueeze(-1) == torch.arange(cast("int", classes), device=input.device)).to(torch.int64)


# --- layers -----------------------------------------------------------------------------------------------------------


@with_symbolic_numbers(F.interpolate)
def _interpolate(torchs: _Function, *args: Any, **given: Any) -> Any:
    from onnx_parity.exporter.operators.interpolation import interpolated_by_symbols  # Few programs need it.

    made = interpolated_by_symbols(args, given)
    return NotImplemented if made is None else made


@with_symbolic_numbers(torch.istft, torch.Tensor.istft)
def _istft(
    torchs: _Function, input: torch.Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: torch.Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: Any = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    if type(length) is not torch.SymInt:
        return NotImplemented
    settings = hop_length, win_length, window, center, normalized, onesided
    return fourier_transforms.istft(input, n_fft, *settings, length, return_complex)


@with_symbolic_numbers(F.scaled_dot_product_attention)
def _attention(torchs: _Function, query: torch.Tensor, *rest: Any, scale: Any = None, **options: Any) -> Any:
    """torch takes a plain scale: the queries are multiplied by a symbolic one."""
    if not isinstance(scale, torch.SymInt | torch.SymFloat):
        return NotImplemented
    return torchs(torch.mul(query, cast("float", scale)), *rest, scale=1.0, **options)


@with_symbolic_numbers(*POOLINGS)
def _pool(torchs: _Function, *args: Any, **given: Any) -> Any:
    made = pooled_over_axes(torchs, args, given)
    return NotImplemented if made is None else made


# --- tensors of numbers: torch.tensor([n, 2]) -------------------------------------------------------------------------


@with_symbolic_numbers(torch.tensor, torch.as_tensor)
def _tensor(torchs: _Function, data: Any, *args: Any, **options: Any) -> Any:
    return _assembled(data, *args, **options) if _has_parts(data) else NotImplemented


@with_symbolic_numbers(torch.Tensor.new_tensor)
def _new_tensor(torchs: _Function, like: torch.Tensor, data: Any, **options: Any) -> Any:
    if not _has_parts(data):
        return NotImplemented
    return _assembled(data, **{"dtype": like.dtype, "device": like.device, **options})


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
