"""Single functions that torch.onnx exports, scripted, and traced where a tracer keeps all that they do."""

# TorchScript reads type comments, so these cannot stand in the functions.
# mypy: disable-error-code="call-overload, arg-type, no-any-return, return-value"

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import bools, floats, given, ints, model, numbers, op, scripted

#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "NaN times zeros of the transform's matrix is NaN"

_ROWS = {"x": {0: "rows"}}
_BOTH = {"x": {0: "rows", 1: "columns"}}
#: Of the first of two inputs.
_FIRST_ROWS, _FIRST_BOTH = ({"x0": axes["x"]} for axes in (_ROWS, _BOTH))


def split(x: Tensor) -> list[Tensor]:
    return torch.split(x, 2)


def split_and_index(x: Tensor) -> Tensor:
    parts = x.split(2)
    return parts[0] * len(parts) + parts[-1].sum(0)


def repeat_interleave(x: Tensor, repeats: Tensor) -> Tensor:
    return torch.repeat_interleave(x, repeats, dim=1)


def repeat_all(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.repeat_interleave(x, torch.tensor(3), dim=0),
        x.repeat_interleave(torch.tensor([2]), 1),
        x.repeat_interleave(2),
    )


def diagonal(x: Tensor, offset: Tensor) -> Tensor:
    return torch.diagonal(x, int(offset))


def diagonal_of_tensor(x: Tensor, offset: Tensor) -> Tensor:
    return torch.diagonal(x, offset)


def view_twice(x: Tensor) -> Tensor:
    return x.view(-1, 2).view(1, -1)


def float_ranges(x: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    last = end.abs() + 1
    return torch.arange(last), torch.arange(0, last, 0.25), torch.arange(-last, 7, 1.5, dtype=torch.int64)


def windows(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    n = x.size(0)
    return (
        torch.hann_window(n),
        torch.hamming_window(n, periodic=False),
        torch.blackman_window(n),
        torch.bartlett_window(n),
        torch.kaiser_window(n, periodic=True, beta=8.0),
    )


def one_hot(x: Tensor, classes: Tensor) -> Tensor:
    return F.one_hot(x, classes[0])


def where_bytes(x: Tensor, condition: Tensor) -> Tensor:
    return torch.where(condition.to(torch.uint8), x, x * 2)


def logdet(x: Tensor) -> tuple[Tensor, Tensor]:
    square = x @ x.transpose(0, 1) + torch.eye(x.size(0)) * 2
    return torch.logdet(square), torch.slogdet(square)[1]


def multinomial(x: Tensor) -> Tensor:
    """Of weights that leave no choice"""
    certain = F.one_hot(x.argmax(1), x.size(1)).to(torch.float32)
    return torch.multinomial(certain, 3, replacement=True)


def multinomial_of_all(x: Tensor) -> Tensor:
    return torch.multinomial(x.abs() + 0.1, x.size(1))[:, :3].sum(1) * 0


def stft(x: Tensor) -> tuple[Tensor, Tensor]:
    window = torch.hann_window(6)
    return (
        torch.stft(x, 8, hop_length=3, center=False, return_complex=False),
        torch.stft(x, 8, 4, 6, window, center=True, normalized=True, onesided=False, return_complex=False),
    )


def convolution(x: Tensor) -> Tensor:
    weight = torch.ones(2, 3, 2)
    return torch.ops.aten._convolution(x, weight, None, [1], [0], [1], False, [0], 1, False, False, True, True)


def factors(x: Tensor, other: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.baddbmm(x, x, other, alpha=alpha, beta=beta)


def set_to_another(x: Tensor, other: Tensor) -> Tensor:
    y = x * 2
    y.set_(other)
    return y + 1


def set_input(x: Tensor, other: Tensor) -> Tensor:
    x.set_(other)
    return x * 2


def chunk_by_size(x: Tensor) -> list[Tensor]:
    return torch.chunk(x, x.size(0), dim=1)


class QuantizedLayer(nn.Module):
    """A linear layer between a quantization and a dequantization"""

    def __init__(self) -> None:
        super().__init__()
        self.to_integers = torch.ao.nn.quantized.Quantize(torch.tensor([0.5]), torch.tensor([128]), torch.quint8)
        self.inner = torch.ao.nn.quantized.Linear(4, 3)
        weight = (torch.arange(12.0) * 5 % 9 - 4.0).reshape(3, 4)
        self.inner.set_weight_bias(torch.quantize_per_tensor(weight, 0.5, 0, torch.qint8), torch.arange(3.0))
        self.inner.scale, self.inner.zero_point = 4.0, 100

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(self.to_integers(x))
        return torch.relu(y).dequantize()


class Renormed(nn.Module):
    """Its weight is scaled down in place where it is looked up; the model does so in each run anew."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Embedding(7, 3, max_norm=0.5)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x)
        return found


script_split = op(scripted(split), floats(5, 3), dynamic=_ROWS)
script_split_and_index = op(scripted(split_and_index), floats(6, 3), dynamic={"x": {1: "columns"}})
script_repeat_interleave = op(scripted(repeat_interleave), floats(2, 3), ints(3, low=1, high=4), dynamic=_FIRST_ROWS)
traced_repeat_interleave = op(repeat_interleave, floats(2, 3), ints(3, low=1, high=4), dynamic=_FIRST_ROWS)
script_repeat_all = op(scripted(repeat_all), floats(2, 3), dynamic=_BOTH)
traced_repeat_all = op(repeat_all, floats(2, 3), dynamic=_BOTH)
script_diagonal = op(scripted(diagonal), floats(4, 5), ints(low=-2, high=3), dynamic=_FIRST_BOTH)
traced_diagonal = op(diagonal_of_tensor, floats(4, 5), ints(low=-2, high=3), dynamic=_FIRST_BOTH)
script_view_twice = op(scripted(view_twice), floats(3, 2), dynamic=_ROWS)
traced_view_twice = op(view_twice, floats(3, 2), dynamic=_ROWS)
script_float_ranges = op(scripted(float_ranges), floats(2), floats())
traced_float_ranges = op(float_ranges, floats(2), floats())
script_windows_of_sizes = op(scripted(windows), floats(5, 2), dynamic=_ROWS)
traced_windows_of_sizes = op(windows, floats(5, 2), dynamic=_ROWS)
script_one_hot = op(scripted(one_hot), ints(4, low=0, high=5), given([5]))
traced_one_hot = op(one_hot, ints(4, low=0, high=5), given([5]))
script_where_bytes = op(scripted(where_bytes), floats(3, 4), bools(3, 4))
traced_where_bytes = op(where_bytes, floats(3, 4), bools(3, 4))
script_logdet = op(scripted(logdet), floats(3, 3))
traced_logdet = op(logdet, floats(3, 3))
script_multinomial = op(scripted(multinomial), floats(3, 4), dynamic=_ROWS)
traced_multinomial = op(multinomial, floats(3, 4), dynamic=_ROWS)
traced_multinomial_of_all = op(multinomial_of_all, floats(3, 4), dynamic=_ROWS)
script_stft = op(scripted(stft), floats(2, 20), dynamic=_ROWS, without_nan=_NAN_TIMES_ZERO)
traced_stft = op(stft, floats(2, 20), dynamic=_ROWS, without_nan=_NAN_TIMES_ZERO)
script_convolution_by_name = op(scripted(convolution), floats(2, 3, 5), dynamic=_ROWS)
traced_convolution_by_name = op(convolution, floats(2, 3, 5), dynamic=_ROWS)
script_set = op(scripted(set_to_another), floats(2, 3), floats(4, 5), dynamic={"x1": {0: "rows"}})
traced_set = op(set_to_another, floats(2, 3), floats(4, 5), dynamic={"x1": {0: "rows"}})
script_set_input = op(scripted(set_input), floats(2, 3), floats(4, 5), dynamic={"x1": {0: "rows"}})
traced_set_input = op(set_input, floats(2, 3), floats(4, 5), dynamic={"x1": {0: "rows"}})
# torch splits an empty axis into as many empty parts as it is asked for.
script_chunk_by_size = op(scripted(chunk_by_size), floats(3, 7), dynamic=_BOTH)
traced_chunk_by_size = op(chunk_by_size, floats(3, 7), dynamic=_BOTH)
script_quantized_layer = model(lambda: torch.jit.script(QuantizedLayer()), numbers(3, 4), dynamic=_ROWS, tier="smoke")
traced_quantized_layer = model(QuantizedLayer, numbers(3, 4), dynamic=_ROWS, tier="smoke")
script_factors = op(scripted(factors), floats(2, 3, 3), floats(2, 3, 3), ints(low=2, high=5), floats())
traced_factors = op(factors, floats(2, 3, 3), floats(2, 3, 3), ints(low=2, high=5), floats())
traced_renormed_embedding = model(Renormed, ints(4, low=0, high=7), dynamic=_ROWS, tier="smoke")
