"""Tensors of symbolic sizes and numbers: `torch.zeros(n)`, `torch.arange(n)`, `torch.tensor([n, 2])`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch

from onnx_parity.exporter.containers import Whole
from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.sizes.symbolic_numbers import read_number, read_numbers_after, with_symbolic_numbers

__all__ = ["space_from_both_ends"]

_Function = Callable[..., Any]

read_numbers_after(0, torch.zeros, torch.ones, torch.empty, torch.full, torch.rand, torch.randn, torch.eye)
read_numbers_after(
    1, torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_empty, torch.Tensor.new_full
)  # fmt: skip

# --- ranges -----------------------------------------------------------------------------------------------------------


@with_symbolic_numbers(torch.arange)
def arange(torchs: _Function, *args: Any, **given: Any) -> Any:
    if "end" in given and len(args) < 2:
        args = (*(args or (given.pop("start", 0),)), given.pop("end"))
    if "step" in given and len(args) == 2:
        args = (*args, given.pop("step"))
    made = arange_of_floats(torchs, *args, **given)
    return torchs(*map(read_number, args), **given) if made is NotImplemented else made


@with_symbolic_numbers("aten::arange")
def arange_of_floats(torchs: _Function, *args: Any, **options: Any) -> Any:
    """A range of floats that are not known: start + step i, for ceil((end - start) / step) of them."""
    floats = [
        each
        for each in args
        if isinstance(each, torch.SymFloat) or (isinstance(each, torch.Tensor) and each.is_floating_point())
    ]
    if not floats or not set(options) <= {"dtype", "device", "out"} or len(args) > 3:
        return NotImplemented
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    out = options.get("out")
    dtype = (options.get("dtype") if out is None else out.dtype) or torch.get_default_dtype()
    first, last, by = map(_as_float64, (start, end, step))
    if not dtype.is_floating_point:
        # torch makes them integers first.
        first, last, by = first.trunc(), last.trunc(), by.trunc()
    count = ((last - first) / by).ceil().clamp(min=0).to(torch.int64).item()
    places = torch.arange(cast("int", count), dtype=torch.float64, device=options.get("device"))
    made = (first + by * places).to(dtype)
    return made if out is None else torch.add(made, torch.zeros([], dtype=made.dtype), out=out)


def _as_float64(number: Any) -> torch.Tensor:
    if isinstance(number, torch.Tensor):
        return number.to("cpu", torch.float64).reshape(())
    return torch.scalar_tensor(number, dtype=torch.float64)


@with_symbolic_numbers(torch.linspace, torch.logspace)
def space(torchs: _Function, start: Any, end: Any, steps: Any, *base: Any, **options: Any) -> Any:
    steps = read_number(steps)
    if "out" in options or not any(isinstance(each, Varying) for each in (start, end, steps)):
        return torchs(start, end, steps, *base, **options)
    spaced = space_from_both_ends(start, end, steps, options.get("device"))
    if torchs.__name__ == "logspace":
        spaced = torch.pow(base[0] if base else options.get("base", 10.0), spaced)
    return spaced.to(options.get("dtype") or torch.get_default_dtype())


def space_from_both_ends(start: Any, end: Any, steps: Any, device: Any = None) -> torch.Tensor:
    """Numbers of float64 between two ends, computed like torch's from both towards the middle."""
    wide = torch.float64
    start, end = (each.to(wide) if isinstance(each, torch.Tensor) else each for each in (start, end))
    places = torch.arange(steps, dtype=wide, device=device)
    step = (end - start) / torch.sym_max(steps - 1, 1)
    return torch.where(places < torch.sym_max(steps // 2, 1), start + step * places, end - step * (steps - 1 - places))


# --- windows ----------------------------------------------------------------------------------------------------------

_WINDOWS = (
    torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window,
)  # fmt: skip


@with_symbolic_numbers(*_WINDOWS, *(f"aten::{window.__name__}" for window in _WINDOWS))
def window(torchs: _Function, window_length: Any, *settings: Any, **options: Any) -> Any:
    length, *given = map(read_number, (window_length, *settings))
    if not isinstance(length, torch.SymInt):
        return torchs(length, *given, **options)
    periodic, *factors = given or [options.get("periodic", True)]
    factors += [options[name] for name in ("alpha", "beta") if name in options]
    name = torchs.__name__
    period = torch.sym_max(length if periodic else length - 1, 1)
    places = torch.arange(cast("int", length), dtype=torch.float64, device=options.get("device"))
    turns = places * (2 * math.pi) / period
    if name == "bartlett_window":
        made = 1 - torch.abs(places * 2 / period - 1)
    elif name == "blackman_window":
        made = 0.42 - 0.5 * torch.cos(turns) + 0.08 * torch.cos(2 * turns)
    elif name == "kaiser_window":
        (beta,) = factors or (12.0,)
        bent = torch.sqrt(torch.clamp(1 - (places * 2 / period - 1) ** 2, min=0))
        made = torch.special.i0(beta * bent) / torch.special.i0(torch.tensor(beta, dtype=torch.float64))
    else:
        defaults = (0.5, 0.5) if name == "hann_window" else (0.54, 0.46)
        known = [*factors, *defaults[len(factors) :]]
        made = known[0] - known[1] * torch.cos(turns)
    # Of a window of one, torch makes a 1.
    is_one = torch.scalar_tensor(cast("int", length), device=options.get("device")) == 1
    return torch.where(is_one, 1.0, made).to(options.get("dtype") or torch.get_default_dtype())


# --- tensors of numbers and of tensors --------------------------------------------------------------------------------


@with_symbolic_numbers(torch.tensor, torch.as_tensor)
def tensor(torchs: _Function, data: Any, *args: Any, **options: Any) -> Any:
    if isinstance(data, Whole) and isinstance(data, list):
        return data.as_tensor(*args, **options)  # type: ignore[attr-defined]
    return _assemble(data, *args, **options) if _has_parts(data) else NotImplemented


@with_symbolic_numbers(torch.Tensor.new_tensor)
def new_tensor(torchs: _Function, like: torch.Tensor, data: Any, **options: Any) -> Any:
    return tensor(torchs, data, **{"dtype": like.dtype, "device": like.device, **options})


def _has_parts(data: Any) -> bool:
    """Whether the data contains symbolic numbers, or lists with tensors, whose memory `torch.tensor` would read."""
    if isinstance(data, (list, tuple)):
        return any(isinstance(part, Varying | torch.Tensor) or _has_parts(part) for part in data)
    return isinstance(data, Varying)


def _assemble(
    data: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> torch.Tensor:
    """The result of `torch.tensor(data)`, built from its parts with operators."""
    return _stack(data, dtype or _common_dtype(_parts_of(data)), device)


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


def _stack(data: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stack(part, dtype, device) for part in data])
    if isinstance(data, torch.Tensor):
        return data.to(device=device, dtype=dtype).reshape(())
    return torch.scalar_tensor(data, dtype=dtype, device=device)
