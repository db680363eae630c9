"""Fourier transforms: of lengths with and without small factors, of dynamic lengths, and of short times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.harness.case import complexes, floats, op

#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "NaN times zeros of the transform's matrix is NaN"

#: The sign of a zero is that of a rounding error, in which no two ways of adding the same terms agree.
_ROUNDING = "a part that is 0 in exact arithmetic is a rounding error, or a zero of either sign"
_LOOSE: Any = {"signed_zeros": False, "because": _ROUNDING}
#: Every part is a sum of sixteen terms of a size of about 3, and may be 0 in exact arithmetic.
_OF_WINDOWS: Any = {
    "signed_zeros": False,
    "tolerance": {torch.float32: 1e-6},
    "because": "the windows are rounded before they are transformed, which torch's own error does not contain",
}
_LENGTH = {"x": {1: "length"}}


def along_last(x: torch.Tensor, f: Callable[..., torch.Tensor], norm: str = "backward") -> torch.Tensor:
    return f(x, norm=norm)


def back_and_forth(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    spectrum = torch.fft.rfft(x)
    return spectrum.abs(), torch.fft.irfft(spectrum, n=x.shape[-1]), torch.fft.ifft(torch.fft.fft(x)).real


of_real = op(
    along_last,
    floats(2, 12),
    f=[torch.fft.fft, torch.fft.ifft, torch.fft.rfft, torch.fft.ihfft],
    **_LOOSE,
    without_nan=_NAN_TIMES_ZERO,
)
of_complex = op(
    along_last, complexes(2, 7), f=[torch.fft.fft, torch.fft.ifft, torch.fft.irfft, torch.fft.hfft], **_LOOSE
)
fourier_norms = op(along_last, complexes(2, 8), f=[torch.fft.fft, torch.fft.irfft], norm=["forward", "ortho"], **_LOOSE)
lengths = op(torch.fft.fft, complexes(1, 400), dtypes=[torch.float32, torch.float64], **_LOOSE)
long = op(torch.fft.rfft, floats(1, 1000), dtypes=[torch.float32], **_LOOSE, without_nan=_NAN_TIMES_ZERO)
of_so_many = op(
    lambda x, n: (
        torch.fft.rfft(x, n=n).abs(),
        torch.fft.irfft(torch.fft.rfft(x), n=n),
        torch.fft.fft2(x, s=(n, n)).real,
        torch.fft.rfft(x, n=x.shape[1] + n).abs(),
    ),
    floats(3, 6),
    n=[4, 8],
    dynamic={"x": {0: "rows", 1: "length"}},
    sizes={"rows": [4, 9], "length": [9, 2, 5]},
    **_LOOSE,
    without_nan=_NAN_TIMES_ZERO,
)
in_two_axes_of_so_many = op(
    lambda x: (torch.fft.hfft2(x, s=(4, 8)), torch.fft.ihfft2(x, s=(4, 8)).real, torch.fft.ihfftn(x, s=(4, 6)).imag),
    floats(3, 14),
    dynamic={"x": {0: "rows", 1: "length"}},
    sizes={"rows": [4, 9], "length": [5, 9, 3]},
    **_LOOSE,
    without_nan=_NAN_TIMES_ZERO,
)
of_one_point = op(lambda x: (torch.fft.fft(x), torch.fft.irfft(x, n=1)), complexes(3, 1), **_LOOSE)
other_length = op(lambda x, n: torch.fft.fft(x, n=n, dim=0), complexes(5, 3), n=[3, 8], **_LOOSE)
several_axes = op(
    lambda x: (torch.fft.fft2(x), torch.fft.ifftn(x), torch.fft.rfftn(x.real), torch.fft.irfft2(x, norm="ortho")),
    complexes(2, 4, 6), **_LOOSE,
)  # fmt: skip
dynamic_length_of_doubles = op(
    lambda x: torch.view_as_real(torch.fft.fft(x)),
    floats(2, 6),
    dynamic=_LENGTH,
    dtypes=[torch.float64],
    **_LOOSE,
    without_nan=_NAN_TIMES_ZERO,
)
#: The sine of half a turn is 0, in transforms of powers of two too.
real_parts_of_doubles = op(
    lambda x: torch.view_as_real(torch.fft.fft(x)), floats(3, 8), dtypes=[torch.float64], without_nan=_NAN_TIMES_ZERO
)
dynamic_length = op(back_and_forth, floats(2, 10), dynamic=_LENGTH, **_LOOSE)
dynamic_batch = op(
    lambda x: torch.fft.fft2(x).real,
    floats(2, 6, 8),
    dynamic={"x": {0: "batch"}},
    **_LOOSE,
    without_nan=_NAN_TIMES_ZERO,
)
shifted = op(
    lambda x: (torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=1), torch.fft.fftfreq(6) + x[0, 0].real),
    complexes(4, 5),
)


frequencies_of_any_number = op(
    lambda x: (
        torch.fft.fftfreq(x.shape[1]) + x,
        torch.fft.rfftfreq(x.shape[1] + 1, d=0.5),
        torch.fft.fftfreq(n=3, d=x.shape[1] * 0.5, dtype=torch.float64),
    ),
    floats(2, 5),
    dynamic={"x": {1: "length"}},
    sizes={"length": [1, 2, 7, 8]},
)


def of_short_times(x: torch.Tensor, normalized: bool = False, onesided: bool = True) -> torch.Tensor:
    window = torch.hann_window(16)
    return torch.stft(x, 16, 4, window=window, normalized=normalized, onesided=onesided, return_complex=True)


def restored(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(16)
    spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=window)


def restored_complex(x: torch.Tensor) -> torch.Tensor:
    """Without a window, each of the frames counts as it is."""
    spectrum = torch.stft(x, 16, 4, onesided=False, return_complex=True)
    return torch.istft(spectrum * (1 + 2j), 16, 4, onesided=False, return_complex=True)


stft = op(
    of_short_times,
    floats(2, 64),
    normalized=[False, True],
    onesided=[True, False],
    **_OF_WINDOWS,
    without_nan=_NAN_TIMES_ZERO,
)
stft_of_any_length = op(
    of_short_times,
    floats(2, 64),
    dynamic={"x": {0: "batch", 1: "length"}},
    sizes={"length": [32, 90]},
    **_OF_WINDOWS,
    without_nan=_NAN_TIMES_ZERO,
)
istft = op(restored, floats(2, 64), dtypes=[torch.float32])
istft_complex = op(restored_complex, floats(2, 64), dtypes=[torch.float32])
#: Pairs of axes that are not the last, which are the ones without `dim`.
_TWO_DIMENSIONAL = [
    getattr(torch.fft, name) for name in ("fft2", "ifft2", "rfft2", "ihfft2", "fftn", "ifftn", "rfftn", "ihfftn")
]
transforms_of_first_axes = op(
    lambda x, f: f(x, dim=(-3, -2)), floats(3, 4, 5), f=_TWO_DIMENSIONAL, **_LOOSE, without_nan=_NAN_TIMES_ZERO
)
inverse_transforms_of_first_axes = op(
    lambda x, f: f(x, dim=(-3, -2)),
    complexes(3, 4, 5),
    f=[torch.fft.irfft2, torch.fft.irfftn, torch.fft.hfft2, torch.fft.hfftn],
    **_LOOSE,
)
shifts_along_an_axis = op(lambda x, f: f(x, dim=-2), floats(3, 5), f=[torch.fft.fftshift, torch.fft.ifftshift])
hfft_of_a_length = op(torch.fft.hfft, complexes(2, 5), n=6, **_LOOSE)
