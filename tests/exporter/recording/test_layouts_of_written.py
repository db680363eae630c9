"""How tensors lie in memory after the program has written to them: as before, whatever functionalization makes."""

from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Callable
from types import FunctionType

import pytest
import torch

import onnx_parity
from tests.thinned import one_in

#: A write through a view of another shape, from which a tensor of one channel is made anew with other strides.
_PIXELS = "w = v.permute(0, 2, 3, 1).reshape(-1, v.shape[1]); w += 1; "
#: Programs of images x with dynamic rows and columns, and of matrices x with gaps after their rows.
OF_IMAGES = (
    _PIXELS + "w = v.contiguous(memory_format=torch.channels_last); w.add_(1); return v * v.stride(1)",
    _PIXELS + "return v * v.stride(1)",
    _PIXELS + "return v * v.stride(0) + (2 if v.is_contiguous(memory_format=torch.channels_last) else 3)",
    _PIXELS + "u = v * 2; return u * u.stride(1)",
    _PIXELS + "u = v.transpose(1, 2); return u * u.stride(2)",
    _PIXELS + "v.transpose_(1, 2); return v * v.stride(2)",
    _PIXELS + "return torch.ones(9, 9).as_strided((2, 2), v.stride()[-2:]).sum() + v",
    "w = v.movedim(1, -1).flatten(0, 2); w.mul_(2); u = v[:, :1]; return u * u.stride(1)",
    "v[:, :1] = 2.0; v.add_(1); return v * v.stride(1)",
)
WITH_GAPS = (
    "x.add_(1); return x * x.stride(0)",
    "x.add_(1); w = x.reshape(-1); w.mul_(0); return x + 0",
    "x.mul_(2); w = x.contiguous(); w.zero_(); return x + 1",
    "x[:, 0] = 1.0; return x * (2 if x.is_contiguous() else 3)",
    "x.add_(1); w = x.t(); return x * w.stride(0) + w.stride(1)",
    "w = x[1:]; w.neg_(); return w * w.stride(0)",
    "x.add_(1); w = x.flatten(); w += 2; return x * 1",
    "w = x[:, 1:]; w.neg_(); return w * w.stride(0)",
    "x.add_(1); w = x.split(2, 1)[0]; w.mul_(2); return w * w.stride(0) + w.stride(1)",
    "x.add_(1); y = x[x[:, 0] > 3]; y[0] = 1.0; return y * y.stride(0) + x.stride(0)",
    "x.data = x.t(); return x * x.stride(0)",
    "z = torch.complex(x, x); z.add_(1); return x * z.stride(0)",
    "y = x * 1; torch.add(x, 1, out=y); return y * y.stride(0)",
)


def _program(code: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """The function of a body, whose source is found."""
    text = f"def program(x):\n    {code}\n"
    file = f"<layouts of written {abs(hash(code))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    found: dict[str, FunctionType] = {}
    exec(compile(text, file, "exec"), {"torch": torch}, found)
    return found["program"]


def _is_right(code: str, given: Callable[[int, int], torch.Tensor], example: tuple[int, int], first: int) -> int:
    """At how many sizes the model is right; it must be right wherever it is run."""
    program, axes = _program(code), {"x": {first: "rows", first + 1: "columns"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onnx_parity.export(program, (given(*example),), dynamic_axes=axes)
    right = 0
    for sizes in itertools.product(range(10), repeat=2):
        try:
            expected = program(given(*sizes))
            result = model(given(*sizes))
        except (IndexError, RuntimeError, onnx_parity.AssumptionError):
            continue
        torch.testing.assert_close(result, expected)
        right += 1
    return right


@pytest.mark.parametrize("code", one_in(2, OF_IMAGES))
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_one_channel(code: str, channels: int) -> None:
    def given(rows: int, columns: int) -> torch.Tensor:
        return torch.arange(2.0 * channels * rows * columns).reshape(2, channels, rows, columns)

    assert _is_right(f"v = x * 1; {code}", given, (4, 5), 2) >= 1


@pytest.mark.parametrize("code", one_in(2, WITH_GAPS))
def test_matrices_with_gaps(code: str) -> None:
    def given(rows: int, columns: int) -> torch.Tensor:
        return torch.arange(10.0 * rows).reshape(rows, 10)[:, :columns]

    assert _is_right(code, given, (4, 5), 0) >= 1
