"""Fourier transforms of so many elements of dynamic axes, those of short times, and their frequencies.

The latter are windows of the signal, transforms of these, and sums of what overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["istft"]

_aten = torch.ops.aten

_ANSWER_OF_THE_EXAMPLE = (
    "torch compares the size with the one that is asked for, and uses the answer of the example for all sizes"
)
_NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@instead_of(*(f"aten::fft_{name}" for name in _NAMES), gives_operator=True, why=_ANSWER_OF_THE_EXAMPLE)
def transform_one_axis(
    op: OpOverload, x: torch.Tensor, n: Size | None = None, dim: int = -1, norm: str | None = None
) -> Any:
    if n is None:
        return NotImplemented
    fitting = _fitting(x, [dim], [n], op)
    return NotImplemented if fitting is x else op.decompose(fitting, n, dim, norm)


@instead_of(
    *(f"aten::fft_{name}{axes}" for name in _NAMES for axes in "2n"), gives_operator=True, why=_ANSWER_OF_THE_EXAMPLE
)
def transform_several_axes(
    op: OpOverload, x: torch.Tensor, s: Sequence[Size] | None = None, dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:  # fmt: skip
    if s is None:
        return NotImplemented
    dims = range(-len(s), 0) if dim is None else dim
    fitting = _fitting(x, dims, s, op)
    return NotImplemented if fitting is x else op.decompose(fitting, s, list(dims), norm)


def _fitting(x: torch.Tensor, dims: Sequence[int], sizes: Sequence[Size], op: OpOverload) -> torch.Tensor:
    """The tensor with as many elements along these axes as are transformed: cut, or followed by zeros."""
    # The input of these has one half of the elements that are asked for, and one more.
    from_half = op.overloadpacket.__name__.startswith(("fft_hfft", "fft_irfft"))
    for number, (dim, size) in enumerate(zip(dims, sizes, strict=False), 1):
        own: Size = x.shape[dim]
        wanted = size // 2 + 1 if from_half and number == len(sizes) else size
        are_known = isinstance(own, int) and isinstance(wanted, int)
        if are_known or same_size(size, -1) or same_size(own, wanted):
            continue  # As many as there are, or torch knows what to do.
        zeros: list[Size] = list(x.shape)
        zeros[dim] = wanted
        x = _aten.slice.Tensor(torch.cat([x, x.new_zeros(zeros)], dim), dim, 0, wanted)
    return x


@instead_of("aten::stft", why="torch's own takes the windows by strides, which values of a graph do not have")
def stft(
    x: torch.Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: torch.Tensor | None = None, normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    if align_to_window:
        return NotImplemented
    frames = x.unfold(-1, n_fft, hop_length or n_fft // 4)
    padded = _window(window, n_fft, win_length or n_fft, x)
    if padded is not None:
        frames = frames * padded
    norm = "ortho" if normalized else "backward"
    one_half = not (x.is_complex() or (window is not None and window.is_complex())) if onesided is None else onesided
    spectrum = torch.fft.rfft(frames, norm=norm) if one_half else torch.fft.fft(frames, norm=norm)
    result = spectrum.transpose(-1, -2)
    return result if return_complex else torch.view_as_real(result)


@instead_of("aten::istft", why="torch's own reads whether the windows cover the signal, and branches on it")
def istft(
    x: torch.Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: torch.Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: Size | None = None, return_complex: bool = False,
) -> torch.Tensor:  # fmt: skip
    spectrum = (x if x.dim() == 3 else x.unsqueeze(0)).transpose(1, 2)
    hop = hop_length or n_fft // 4
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = torch.fft.ifft(spectrum, norm=norm)
    else:
        frames = torch.fft.irfft(spectrum[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    shape = _window(window, n_fft, win_length or n_fft, frames)
    if shape is None:
        shape = torch.ones(n_fft, dtype=frames.dtype.to_real(), device=x.device)
    count = frames.shape[1]
    whole = n_fft + hop * (count - 1)
    signal = _overlapped(frames * shape, whole, n_fft, hop)
    envelope = _overlapped((shape * shape).expand(1, count, n_fft), whole, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    result: torch.Tensor = _aten.slice.Tensor(signal, 1, start, end) / _aten.slice.Tensor(envelope, 1, start, end)
    if length is not None:
        result = F.pad(result, (0, torch.sym_max(end - whole, 0)))
    return result if x.dim() == 3 else result.squeeze(0)


def _window(window: torch.Tensor | None, n_fft: int, win_length: int, like: torch.Tensor) -> torch.Tensor | None:
    """The window in the middle of a frame, of the dtype and the device of a signal; None if it is 1 everywhere."""
    if window is None:
        if win_length == n_fft:
            return None
        window = torch.ones(win_length, dtype=like.dtype.to_real(), device=like.device)
    left = (n_fft - win_length) // 2
    return F.pad(window, (left, n_fft - win_length - left)) if win_length != n_fft else window


def _overlapped(frames: torch.Tensor, size: Size, n_fft: int, hop: int) -> torch.Tensor:
    """Frames added up where they overlap."""
    places = torch.arange(cast("int", size), device=frames.device).unfold(0, n_fft, hop).reshape(-1)
    empty = torch.zeros([frames.shape[0], size], dtype=frames.dtype, device=frames.device)
    return empty.index_add(1, places, frames.reshape(frames.shape[0], -1))


# --- if it has no lowering --------------------------------------------------------------------------------------------


@decomposition_of("aten::fft_fftfreq")
def frequencies(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **options: Any) -> torch.Tensor:
    positive = torch.arange((n - 1) // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device)
    return torch.cat([positive, torch.arange(-(n // 2), 0, dtype=positive.dtype, device=device)]) * (1.0 / (n * d))


@decomposition_of("aten::fft_rfftfreq")
def positive_frequencies(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **options: Any
) -> torch.Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1.0 / (n * d))
