"""Dynamic sizes as arguments of functions that torch gives plain numbers: by position and by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import onnx_parity
from tests.exporter.sizes.test_size_arithmetic import exported, same_for

_FEATURES = [(2, 3, 5, 6), (1, 3, 7, 4), (3, 3, 2, 9), (1, 3, 5, 3)]


class _Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def same_for_features(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    examples = [torch.rand(shape) for shape in _FEATURES]
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    program = onnx_parity.export(_Applied(function), (examples[0],), input_names=["x"], dynamic_axes=axes, verify=True)
    for x in examples:
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, x.size()[2:]),
        lambda x: F.avg_pool2d(x, kernel_size=(x.size(2), 2), stride=(1, 2), padding=(0, 1)),
        lambda x: F.avg_pool2d(x, (2, x.size(3)), (2, 1), (1, 0), True, False),
        lambda x: F.avg_pool3d(x[:, :, None], (1, x.shape[2], x.shape[3])),
        lambda x: F.avg_pool1d(x[:, :, 0], x.size(-1)),
        lambda x: F.max_pool1d(x[:, :, 0], x.shape[3]).squeeze(2),
        lambda x: F.max_pool1d(F.conv1d(x[:, :, 0], torch.ones(2, 3, 3), padding=2), x.shape[3] + 2),
        lambda x: F.max_pool2d(x, (x.size(2), 1)),
        lambda x: torch.max_pool2d(x, kernel_size=[1, x.size(3)], stride=[2, 1]),
        lambda x: F.max_pool3d(x[:, :, None], (1, *x.shape[2:])),
    ],
)
def test_windows_that_are_whole_axes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    same_for_features(function)


_MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


@pytest.mark.parametrize(
    "function",
    [
        *[lambda x, mode=mode: F.interpolate(x, scale_factor=(8.1 / x.shape[2], 3), mode=mode) for mode in _MODES],
        # Of a height of 5 and a width of 3, a factor of 5/4 leaves the width as it is, which torch copies then.
        *[lambda x, mode=mode: F.interpolate(x, scale_factor=x.shape[2] / 4, mode=mode) for mode in _MODES],
        *[lambda x, mode=mode: F.interpolate(x, scale_factor=(x.shape[2] / 4, 1.3), mode=mode) for mode in _MODES],
        lambda x: F.interpolate(x, scale_factor=x.shape[2] // 2, mode="bilinear"),
        lambda x: F.interpolate(x, None, x.shape[3] / 4, "bilinear", align_corners=True),
        lambda x: F.interpolate(x, scale_factor=x.shape[3] / 4, mode="bicubic", recompute_scale_factor=True),
        lambda x: F.interpolate(x[:, 0], scale_factor=[7.1 / x.shape[3]], mode="linear"),
        lambda x: F.interpolate(x[:, :, None], scale_factor=(1, 1.5, x.shape[3] / 5), mode="trilinear"),
        lambda x: F.scaled_dot_product_attention(x, x, x, scale=1 / math.sqrt(x.shape[3])),
        lambda x: F.scaled_dot_product_attention(query=x, key=x, value=x, scale=x.shape[2] ** -0.5),
    ],
)
def test_factors_that_depend_on_sizes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    same_for_features(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x[None, None], scale_factor=x.shape[0] / 4, mode="bilinear", antialias=True),
        lambda x: F.max_pool1d(x[None], x.shape[1] - 1, stride=1),
        lambda x: F.max_pool1d(x[None], x.shape[1], return_indices=True)[1],
        lambda x: F.avg_pool1d(x[None], x.shape[1], padding=1),
    ],
)
def test_other_arguments_are_refused(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.DynamicAxisError):
        exported(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linspace(-1, 1, steps=x.shape[0]),
        lambda x: torch.linspace(start=0.5, end=x.shape[1] - 0.5, steps=x.shape[1]),
        lambda x: torch.linspace(0, x.shape[0], 5),
        lambda x: torch.linspace(x.shape[0], x[0, 0], steps=3, dtype=torch.float64),
        lambda x: torch.logspace(0, 1, steps=x.shape[0]),
        lambda x: torch.logspace(0, x.shape[0], 4, base=2.0),
        lambda x: torch.arange(end=x.shape[0]),
        lambda x: torch.arange(start=0.5, end=x.shape[0] + 0.5),
        lambda x: torch.arange(1, x.shape[0] + 1, step=0.5),
        lambda x: torch.hann_window(window_length=x.shape[0]),
        lambda x: torch.full((2,), round(x.shape[0] * 5, -1)),
        lambda x: torch.full((2,), round(x.shape[0] * x.shape[1] * 10, ndigits=-2)),
        lambda x: x / x.new_tensor([x.shape[0], 3]).sum(),
        lambda x: x[: int(x.argmax())],
        lambda x: x * float(x.max()) + int(x.sum()),
        lambda x: torch.kaiser_window(window_length=x.shape[0] + 1, periodic=False),
        lambda x: F.one_hot(x.argmax(1), num_classes=x.shape[1]),
        lambda x: torch.stack(torch.unravel_index(x.flatten().argsort(), x.shape)),
        lambda x: torch.stack(torch.unravel_index(indices=x.argmax(1), shape=(x.shape[0], x.shape[1]))),
        lambda x: x[tuple(torch.triu_indices(x.shape[0], x.shape[1], offset=1))],
        lambda x: torch.tril_indices(row=x.shape[0], col=4, offset=-1, dtype=torch.int32),
        lambda x: torch.stack(torch.cat([x, -x]).split(x.shape[0])),
        lambda x: torch.bincount(x.argmax(1), minlength=x.shape[1] + 2),
        lambda x: math.prod(torch.split(torch.cat([x, x, x], 1), split_size_or_sections=x.shape[1], dim=1)),
    ],
)
def test_numbers_of_functions(function: Callable[[torch.Tensor], Any]) -> None:
    same_for(exported(function), function, (5, 7), (2, 3), (9, 4), (12, 2))


class _SpectrumAndBack(torch.nn.Module):
    def __init__(self, center: bool) -> None:
        super().__init__()
        self.center = center
        self.register_buffer("window", torch.hann_window(8) + 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = self.window
        assert isinstance(window, torch.Tensor)
        spectrum = torch.stft(x, 8, 2, window=window, center=self.center, return_complex=True) * 2
        back = torch.istft(spectrum, 8, 2, window=window, center=self.center, length=x.shape[-1])
        again: torch.Tensor = spectrum.istft(8, 2, None, window, self.center, False, None, x.shape[-1])
        return back + again


@pytest.mark.parametrize("scripted", [False, True], ids=["trace", "script"])
@pytest.mark.parametrize("center", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_signals_of_a_dynamic_length(center: bool, scripted: bool) -> None:
    module = _SpectrumAndBack(center)
    axes = {"x": {0: "batch", 1: "length"}}
    model = torch.jit.script(module) if scripted else module
    program = onnx_parity.export(model, (torch.rand(2, 17),), input_names=["x"], dynamic_axes=axes, verify=True)
    same_for(program, module, (2, 17), (1, 32), (3, 21))


class _Unpacked(torch.nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rnn = torch.nn.GRU(4, 3, batch_first=batch_first)
        self.batch_first = batch_first

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        packed = pack_padded_sequence(x, lengths, batch_first=self.batch_first, enforce_sorted=False)
        steps = x.size(1 if self.batch_first else 0)
        return pad_packed_sequence(self.rnn(packed)[0], self.batch_first, -1.0, steps + 1)


@pytest.mark.filterwarnings("ignore:the script raises an exception")
@pytest.mark.parametrize("scripted", [False, True], ids=["trace", "script"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_are_padded_to_a_dynamic_length(batch_first: bool, scripted: bool) -> None:
    def example(batch: int, steps: int) -> torch.Tensor:
        return torch.rand(batch, steps, 4) if batch_first else torch.rand(steps, batch, 4)

    module = _Unpacked(batch_first)
    model = torch.jit.script(module) if scripted else module
    axes = {"x": {0: "batch", 1: "steps"} if batch_first else {0: "steps", 1: "batch"}, "lengths": {0: "batch"}}
    lengths = torch.tensor([3, 7])
    program = onnx_parity.export(
        model, (example(2, 7), lengths), input_names=["x", "lengths"], dynamic_axes=axes, verify=True
    )
    for x, given in ((example(2, 7), torch.tensor([2, 5])), (example(3, 4), torch.tensor([4, 1, 2]))):
        for ours, torchs in zip(program(x, given), module(x, given), strict=True):
            torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize(("stride", "dilation", "padding"), [(2, 1, 1), (3, 1, 0), (1, 3, 2), (3, 2, 0)])
def test_transposed_convolutions_to_the_size_before(stride: int, dilation: int, padding: int, opset: int) -> None:
    settings = {"stride": stride, "dilation": dilation, "padding": padding}
    narrower = torch.nn.Conv2d(3, 4, 3, **settings)  # type: ignore[arg-type]
    wider = torch.nn.ConvTranspose2d(4, 2, 3, **settings)  # type: ignore[arg-type]

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrower, self.wider = narrower, wider

        def forward(self, x: torch.Tensor) -> Any:
            return self.wider(self.narrower(x), output_size=x.shape[2:])

    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    module, examples = Program(), [torch.rand(2, 3, 11, 12), torch.rand(1, 3, 13, 7), torch.rand(1, 3, 9, 14)]
    program = onnx_parity.export(
        module, (examples[0],), input_names=["x"], dynamic_axes=axes, opset_version=opset, verify=True
    )
    for x in examples:
        torch.testing.assert_close(program(x), module(x))


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x, x.shape[1]) + F.avg_pool2d(x[None], x[None].size()[1:])[0]


def _triangles(x: torch.Tensor) -> torch.Tensor:
    rows = torch.tril_indices(x.shape[0], x.shape[1])
    return torch.cat([x.flatten()[rows[0] * x.shape[1] + rows[1]], torch.triu_indices(x.shape[0], 3, 1)[1].float()])


def _halves(x: torch.Tensor) -> torch.Tensor:
    first, second = torch.split(torch.cat([x, x + 1]), x.shape[0])
    return first * second


@pytest.mark.parametrize("function", [_pooled, _triangles, _halves])
def test_scripts(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    same_for(exported(torch.jit.script(function)), function, (5, 7), (2, 3), (9, 4))
