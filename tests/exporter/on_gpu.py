"""Exports programs whose weights and inputs are on a GPU, and compares the models with exports from the CPU.

An export must not depend on the device. No GPU is needed: a backend in Python represents one, and fake tensors have it
as their device, so that torch refuses operators that mix devices. The backend cannot be unregistered, so the test has
its own process: `python -m tests.exporter.on_gpu` prints, as JSON, the failures of each program, which are none if all
is right.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import onnx_parity
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor, FakeTensorMode

_aten = torch.ops.aten
_MODE = FakeTensorMode()
_NAME = "gpu"


def on_gpu(tensor: Tensor, name: str = _NAME) -> FakeTensor:
    meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return FakeTensor(_MODE, meta, torch.device(name, 0))


def moved(module: nn.Module) -> nn.Module:
    """The module with its weights on the GPU, none of them with data."""
    for each in module.modules():
        for name, parameter in each._parameters.items():
            if parameter is not None:
                each._parameters[name] = nn.Parameter(on_gpu(parameter), requires_grad=False)
        for name, buffer in each._buffers.items():
            if buffer is not None:
                each._buffers[name] = on_gpu(buffer)
    return module


class Sampled(nn.Module):
    def forward(self, x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, align_corners=True)


class Scaled(nn.Module):
    """A weight meets a literal of as many numbers, which is no weight and lies in the CPU's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (4,), self.weight * 2, eps=0.1) + self.weight[:, None].expand(4, 4)


class Hidden(nn.Module):
    """One output of a cell that has two."""

    def __init__(self, cell: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.cell = cell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        result = self.cell(x)
        first: Tensor = result[0] if isinstance(result, tuple) else result
        return first


class OfLengths(nn.Module):
    """Lengths of a tensor lie in the CPU's memory, as torch's documentation has them, and so may the labels."""

    def forward(self, x: Tensor) -> Tensor:
        lengths, labels = torch.tensor([4, 3]), torch.tensor([[1, 2], [3, 1]])
        return F.ctc_loss(x.log_softmax(2), labels, lengths, torch.tensor([2, 1]))[None]


class Fused(nn.Module):
    """Cells as `torch.jit.trace` records them on a GPU; on the CPU the cells themselves."""

    def __init__(self, cell: nn.LSTMCell | nn.GRUCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        is_lstm = isinstance(self.cell, nn.LSTMCell)
        if x.device.type == "cpu":
            made = self.cell(x, (hidden, state) if is_lstm else hidden)
            return (*made, made[0]) if is_lstm else (made, made)
        w, v, b, c = self.cell.weight_ih, self.cell.weight_hh, self.cell.bias_ih, self.cell.bias_hh
        # Its biases are added by the kernel, or before.
        kernel, states = (_aten._thnn_fused_lstm_cell, state) if is_lstm else (_aten._thnn_fused_gru_cell, hidden)
        results = kernel(x @ w.T, hidden @ v.T, states, b, c)
        again = kernel(F.linear(x, w, b), F.linear(hidden, v, c), states)
        return *results[:-1], again[0]


@torch.jit.script
def _of_numbers(x: Tensor) -> Tensor:
    """Numbers that depend on values lie in no memory, and tensors of them where the script says."""
    count, largest = int((x > -100.0).sum()), float(x.max())
    spaced = torch.linspace(0.0, largest, count, device=x.device) + torch.arange(0.0, 8.0, 1.0, device=x.device)
    full = torch.full([8], largest, device=x.device) + x.new_full([8], largest) + torch.full_like(x, largest)[0, 0]
    full = full + x.quantile(float(x.sigmoid().mean()))
    full = full + torch.tensor([largest, 1.0], device=x.device)[0] + torch.tensor([0.5, 2.0], device=x.device)[1]
    full = full.scatter(0, torch.zeros_like(x[0], dtype=torch.int64), largest)
    hot = F.one_hot(x[0, :2].ge(0.0).long(), count).sum([0])
    return spaced + full * hot + torch.hann_window(count, device=x.device) + x.reshape(8)


class OfNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = _of_numbers(x)
        return made


class Pooled(nn.Module):
    def forward(self, x: Tensor, samples: Tensor) -> Tensor:
        pooled: Tensor = F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=samples)
        return pooled


class Counted(nn.Module):
    """Only on a GPU torch counts integers, as transformers does for experts; on the CPU the equal floats."""

    def forward(self, x: Tensor) -> Tensor:
        whole = x.mul(4).round()
        taken = whole if x.device.type == "cpu" else whole.int()
        ranges = ((8, -4, 3), (4, 0, 0), (5, -2, 8), (1, 0, 3), (3, 2, 2))
        counts = [torch.histc(taken, bins, low, high) for bins, low, high in ranges]
        return torch.cat([*counts, torch.histc(taken[:, :1] * 0 + 2, 4)]).float()


class Framed(nn.Module):
    """Its frames are longer than the window, which has no values of its own."""

    def forward(self, x: Tensor) -> Tensor:
        frames = torch.stft(x, 8, win_length=4, return_complex=True)
        signal = torch.istft(frames, 8, win_length=4, window=torch.ones(4, device=x.device))
        return signal + torch.view_as_real(frames).sum()


#: What makes each, the shapes of its inputs, and the first opset that can say it.
PROGRAMS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...], int]] = {
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)),
        ((2, 3, 8, 8),),
        9,
    ),
    "scaled": (Scaled, ((4, 4),), 9),
    "grid_sample": (Sampled, ((2, 3, 4, 5), (2, 6, 7, 2)), 16),
    "grid_sample 3d": (Sampled, ((2, 3, 4, 5, 6), (2, 3, 6, 7, 3)), 20),
    "lstm_cell": (lambda: Hidden(nn.LSTMCell), ((2, 4),), 9),
    "gru_cell": (lambda: Hidden(nn.GRUCell), ((2, 4),), 9),
    "traced lstm_cell": (lambda: Fused(nn.LSTMCell(4, 3)), ((2, 4), (2, 3), (2, 3)), 9),
    "traced gru_cell": (lambda: Fused(nn.GRUCell(4, 3)), ((2, 4), (2, 3), (2, 3)), 9),
    "ctc_loss": (OfLengths, ((4, 2, 5),), 11),
    "numbers of a script": (OfNumbers, ((2, 4),), 13),
    "fractional_max_pool2d": (Pooled, ((2, 3, 7, 7), (2, 3, 2)), 13),
    "stft": (Framed, ((2, 32),), 17),
    "counted": (Counted, ((7, 6),), 9),
    "lstm": (lambda: Hidden(nn.LSTM), ((2, 5, 4),), 9),
    "rnn_cell": (lambda: Hidden(nn.RNNCell), ((2, 4),), 9),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), ((2, 5, 8),), 9),
}


def wrong_with(make: Callable[[], nn.Module], shapes: tuple[tuple[int, ...], ...], opset: int) -> str:
    """What differs, or is refused, where the program is exported from the GPU."""
    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    module = make().eval()
    here = onnx_parity.export(module, inputs, opset_version=opset)
    weights = {key: value.clone() for key, value in module.state_dict().items()}
    try:
        there = onnx_parity.export(moved(module), tuple(map(on_gpu, inputs)), opset_version=opset)
        there.apply_weights(weights)
        for ours, theirs in zip(there(*inputs), here(*inputs), strict=True):
            torch.testing.assert_close(ours, theirs)
    except (onnx_parity.ExportError, AssertionError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _setup_privateuseone_for_python_backend(_NAME)
    print(
        json.dumps(
            {
                f"{name} at opset {opset}": wrong_with(make, shapes, opset)
                for name, (make, shapes, first) in PROGRAMS.items()
                for opset in {first, 21}
            }
        )
    )
