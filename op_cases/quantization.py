"""Quantization: fake quantization in its five forms, and programs that compute with quantized tensors.

Inputs and weights are multiples of their scales, so that no value lies halfway between two numbers of a grid: there,
torch's integers and the floats of runtimes may round to different sides.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization as ao
import torch.ao.quantization.fx._decomposed  # (Registers the operators of `quantized_decomposed`.)
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import floats, given, ints, model, numbers, op

#: Why some cases do not run with a NaN.
_NAN_IN_INTEGERS = "the processor decides which integer NaN becomes"

_ROWS = {"x": {0: "rows"}}

# --- fake quantization ------------------------------------------------------------------------------------------------


def _to_grid(low: int, high: int) -> Callable[[Tensor], Tensor]:
    def rounds(x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.11, 3, low, high)

    return rounds


fake_quantize_signed = op(_to_grid(-128, 127), floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
fake_quantize_unsigned = op(_to_grid(0, 255), floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
fake_quantize_seven_bits = op(_to_grid(0, 127), floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
fake_quantize_four_bits = op(_to_grid(-8, 7), floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
fake_quantize_sixteen_bits = op(_to_grid(0, 65535), floats(2, 3, 7), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)


def by_tensors(x: Tensor, scale: Tensor) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, scale.abs() + 0.1, torch.tensor(2), -128, 127)


def per_channel(x: Tensor) -> Tensor:
    scale = torch.tensor([0.1, 0.03, 0.2])
    zero_point = torch.tensor([0, 5, 1], dtype=torch.int32)
    y = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 1, 0, 255)
    return torch.fake_quantize_per_channel_affine(y, scale, zero_point, 1, -100, 100)


def learnable(x: Tensor) -> Tensor:
    scale, zero_point = torch.tensor([0.1]), torch.tensor([2.0])
    return torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero_point, 0, 255, 1.0)


def learnable_per_channel(x: Tensor) -> Tensor:
    scale, zero_point = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([2.0, 0.0, 7.0])
    return torch._fake_quantize_learnable_per_channel_affine(x, scale, zero_point, 1, 0, 255, 1.0)


fake_quantize_by_tensors = op(
    by_tensors, floats(2, 3, 4), floats(), dynamic={"x0": {0: "rows"}}, without_nan=_NAN_IN_INTEGERS
)
fake_quantize_per_channel = op(per_channel, floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
fake_quantize_learnable = op(learnable, floats(2, 3, 4), without_nan=_NAN_IN_INTEGERS)
fake_quantize_learnable_per_channel = op(learnable_per_channel, floats(2, 3, 4), without_nan=_NAN_IN_INTEGERS)

# --- floats of 8 bits -------------------------------------------------------------------------------------------------


class EightBits(nn.Module):
    """Weights of 8 bits with one scale, as torchao stores them."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", (torch.arange(-6.0, 6.0) * 40).reshape(3, 4).to(torch.float8_e4m3fn))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) * 0.01)


def in_eight_bits(x: Tensor) -> tuple[Tensor, ...]:
    return tuple((x * 300).to(each) for each in (torch.float8_e4m3fn, torch.float8_e5m2))


def eight_bits_and_back(x: Tensor) -> Tensor:
    return (x * 300).to(torch.float8_e4m3fn).to(x.dtype)


def five_bits_of_exponent(x: Tensor) -> Tensor:
    return x.to(torch.float8_e5m2).to(x.dtype)


def product_of_eight_bits(x: Tensor, y: Tensor) -> Tensor:
    one = torch.ones((), device=x.device)
    a, b = x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.T, one, one * 0.5, out_dtype=torch.float32)


def sum_with_product_of_eight_bits(x: Tensor, y: Tensor) -> Tensor:
    one = torch.ones((), device=x.device)
    a, b = x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.T, one, one * 0.5, bias=x[0].to(torch.bfloat16), out_dtype=torch.bfloat16)


weight_of_eight_bits = op(EightBits(), floats(2, 4), tier="default")
float8 = op(in_eight_bits, floats(3, 4), tier="default")
float8_and_back = op(eight_bits_and_back, floats(3, 4), dynamic=_ROWS, tier="default")
float8_truth = op(
    lambda x: (x.to(torch.float8_e4m3fn).bool(), x.to(torch.float8_e5m2).bool()),
    given([0.0, -0.0, 1.0, -2.0]),
    tier="default",
)
float8_beyond_the_largest = op(
    five_bits_of_exponent,
    given([57344.0, 60000.0, 61440.0, -64000.0, 65536.0]),
    dtypes=[torch.float32],
    tier="default",
)
float8_product = op(product_of_eight_bits, floats(16, 16), floats(16, 16), dtypes=[torch.float32], tier="default")
float8_product_with_bias = op(
    sum_with_product_of_eight_bits, floats(16, 16), floats(16, 16), dtypes=[torch.float32], tier="default"
)

# --- quantized tensors ------------------------------------------------------------------------------------------------


class Quantized(nn.Module):
    """Quantizes its input, calls a layer or a function, and dequantizes the result."""

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.quantize_per_tensor(x, 0.5, 128, torch.quint8)).dequantize()


def _identity(x: Tensor) -> Tensor:
    return x


def _weighted(layer: Any, shape: tuple[int, ...], outputs: int) -> Any:
    """A quantized layer with weights that are whole numbers."""
    weight = (torch.arange(math.prod(shape)) * 5 % 9 - 4.0).reshape(shape)
    zeros = torch.zeros(shape[0], dtype=torch.int64)
    per_channel = torch.quantize_per_channel(weight, torch.full([shape[0]], 0.5), zeros, 0, torch.qint8)
    whole = torch.quantize_per_tensor(weight, 0.5, 0, torch.qint8)
    layer.set_weight_bias(whole if "Transpose" in type(layer).__name__ else per_channel, torch.arange(float(outputs)))
    layer.scale, layer.zero_point = 4.0, 100
    return layer


def _linear() -> nn.Module:
    return Quantized(_weighted(torch.ao.nn.quantized.Linear(4, 3), (3, 4), 3))


def _conv1d() -> nn.Module:
    return Quantized(_weighted(torch.ao.nn.quantized.Conv1d(2, 3, 3, stride=2), (3, 2, 3), 3))


def _conv2d() -> nn.Module:
    return Quantized(_weighted(torch.ao.nn.quantized.Conv2d(2, 3, 3, padding=1), (3, 2, 3, 3), 3))


def _conv2d_relu() -> nn.Module:
    return Quantized(_weighted(torch.ao.nn.intrinsic.quantized.ConvReLU2d(2, 3, 3), (3, 2, 3, 3), 3))


def _conv_transpose2d() -> nn.Module:
    layer = torch.ao.nn.quantized.ConvTranspose2d(2, 3, 3, stride=2, output_padding=(0, 1))
    return Quantized(_weighted(layer, (2, 3, 3, 3), 3))


_IMAGES = {"x": {0: "batch", 2: "height", 3: "width"}}

quantize = model(lambda: Quantized(_identity), numbers(3, 4), dynamic=_ROWS, tier="smoke")
quantized_linear = model(_linear, numbers(3, 4), dynamic=_ROWS, tier="smoke")
quantized_conv1d = model(_conv1d, numbers(2, 2, 7), tier="smoke")
quantized_conv2d = model(_conv2d, numbers(2, 2, 5, 5), dynamic=_IMAGES, tier="smoke")
quantized_conv2d_relu = model(_conv2d_relu, numbers(2, 2, 5, 5), tier="smoke")
quantized_conv_transpose2d = model(_conv_transpose2d, numbers(2, 2, 4, 4), tier="smoke")


def _dynamic(options: Any) -> Any:
    """Layers that quantize their inputs by the values, with weights in 8 bits or in float16."""
    layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3, bias=False)).eval()
    with torch.no_grad():
        for weight in layers.parameters():
            weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape))
    if options is not torch.float16:
        return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear: options})
    return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, options)


quantized_dynamically = model(
    _dynamic,
    floats(3, 4, dtype=torch.float32),
    options=[
        torch.ao.quantization.default_dynamic_qconfig,
        torch.ao.quantization.per_channel_dynamic_qconfig,
        torch.float16,
    ],
    dynamic=_ROWS,
    tier="smoke",
)
quantized_dynamically_with_relu = model(
    lambda: _weighted(torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU(4, 3), (3, 4), 3),
    floats(3, 4, dtype=torch.float32),
    dynamic=_ROWS,
    tier="smoke",
)


def _table() -> nn.Module:
    """A table in 8 bits, of which each row has a scale."""
    table: Any = nn.Embedding(7, 4).eval()
    with torch.no_grad():
        table.weight.copy_(torch.linspace(-1, 2, 28).reshape(7, 4) ** 2)
    table.qconfig = ao.float_qparams_weight_only_qconfig
    tables: nn.Module = ao.convert(ao.prepare(nn.ModuleList([table])))[0]
    return tables


quantized_table = model(_table, ints(2, 3, high=7), dynamic=_ROWS, tier="smoke")


def _trained(channels: bool, symmetric: bool, low: float = -1.5) -> nn.Module:
    """A module of training for quantization that no longer observes: its limits are known."""
    kinds = (
        (torch.per_channel_symmetric if symmetric else torch.per_channel_affine)
        if channels
        else (torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine)
    )
    observer = ao.MovingAveragePerChannelMinMaxObserver if channels else ao.MovingAverageMinMaxObserver
    quantizer = ao.FusedMovingAvgObsFakeQuantize(observer, -128, 127, dtype=torch.qint8, qscheme=kinds)
    quantizer(torch.tensor([[low, 0.3], [low / 2, 1.1], [0.2, 2.0]]))
    quantizer.disable_observer()
    return quantizer.eval()


trained_for_quantization = model(
    _trained,
    floats(3, 4, dtype=torch.float32),
    channels=[False, True],
    symmetric=[False, True],
    low=[-1.5, 0.5],
    tier="smoke",
)


def moved(x: Tensor) -> Tensor:
    y = F.relu(x.transpose(0, 1).flatten(1))[:, 1:]
    return torch.cat([y, y], 0)


def pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(x.unsqueeze(0).unsqueeze(0), 2).squeeze(0)


def activated(x: Tensor) -> Tensor:
    return torch.tanh(F.hardtanh(x, -2.0, 2.0))


def arithmetic(x: Tensor) -> Tensor:
    functional = torch.ao.nn.quantized.QFunctional()
    y = torch.ops.quantized.add(x, functional.cat([x, x])[: x.size(0)], 1.0, 100)
    product: Tensor = torch.ops.quantized.mul(y, x, 2.0, 100)
    return product


quantized_moved = model(lambda: Quantized(moved), numbers(3, 4), tier="smoke")
quantized_pooled = model(lambda: Quantized(pooled), numbers(4, 4), tier="smoke")
quantized_activations = model(lambda: Quantized(activated), numbers(3, 4), tier="smoke")
quantized_arithmetic = model(lambda: Quantized(arithmetic), numbers(3, 4), tier="smoke")


# --- quantized_decomposed, as PT2E and torchao leave it ---------------------------------------------------------------

_decomposed = torch.ops.quantized_decomposed
_WEIGHT = torch.arange(-64, 64, dtype=torch.int8).reshape(8, 16)
_SCALES = torch.linspace(0.01, 0.08, 8)


def decomposed_grids(x: Tensor) -> Any:
    made = []
    for low, high, dtype in (
        (-128, 127, torch.int8),
        (-8, 7, torch.int8),
        (0, 15, torch.uint8),
        (-999, 999, torch.int16),
    ):
        ints = _decomposed.quantize_per_tensor(x, 0.11, 3, low, high, dtype)
        made += [ints, _decomposed.dequantize_per_tensor(ints, 0.11, 3, low, high, dtype)]
    return made


def decomposed_channels(x: Tensor) -> Tensor:
    grid = torch.tensor([0.11, 0.07, 0.2]), torch.tensor([0, 5, -3]), 1, -100, 100, torch.int8
    result: Tensor = _decomposed.dequantize_per_channel(_decomposed.quantize_per_channel(x, *grid), *grid)
    return result


def decomposed_layer(x: Tensor) -> Tensor:
    """A linear layer of PT2E: its input, its weight and its result are quantized."""
    of_input, of_result = (0.05, 3, -128, 127, torch.int8), (0.1, -5, -128, 127, torch.int8)
    weight = _decomposed.dequantize_per_channel(
        _WEIGHT, _SCALES, torch.zeros(8, dtype=torch.int64), 0, -127, 127, torch.int8
    )
    ints = _decomposed.quantize_per_tensor(x * 0.05, *of_input)
    y = F.linear(_decomposed.dequantize_per_tensor(ints, *of_input), weight, torch.arange(8.0))
    result: Tensor = _decomposed.quantize_per_tensor(y * 1.0001, *of_result)
    return result


def decomposed_weights(x: Tensor) -> Any:
    """Layers of which the weights alone are quantized: of eight bits, of four bits, and by groups."""
    by_rows = _decomposed.dequantize_per_channel(_WEIGHT, _SCALES, None, 0, -128, 127, torch.int8)
    zero_points = torch.full((8, 4), 2, dtype=torch.int32)
    by_groups = _decomposed.dequantize_per_channel_group(
        _WEIGHT // 8, torch.linspace(0.01, 0.4, 32).reshape(8, 4), zero_points, -8, 7, torch.int8, 4, torch.float32
    )
    return F.linear(x, by_rows), F.linear(x, by_groups), torch.ops.aten._weight_int8pack_mm(x, _WEIGHT, _SCALES)


def decomposed_dynamic(x: Tensor) -> Any:
    """The scale is computed from the values, for all or for each row."""
    grid = *_decomposed.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8), -128, 127, torch.int8
    rows = *_decomposed.choose_qparams_per_token_asymmetric(x, torch.int8), -128, 127, torch.int8
    by_rows = _decomposed.dequantize_per_token(_decomposed.quantize_per_token(x, *rows), *rows, torch.float32)
    return _decomposed.dequantize_per_tensor.tensor(_decomposed.quantize_per_tensor.tensor(x, *grid), *grid), by_rows


def unpacked_fours(x: Tensor) -> Tensor:
    """Weights of four bits, two in each byte, which the program takes apart by shifts."""
    packed = torch.arange(0, 256, 2, dtype=torch.int64).to(torch.uint8).reshape(8, 16)
    weight = torch.stack([packed & 15, packed >> 4], -1).flatten(1).float() - 8
    return F.linear(x.repeat(1, 2), weight * _SCALES.unsqueeze(1))


_HALVES = torch.arange(0, 1024, dtype=torch.int64).remainder(253).to(torch.uint8).reshape(32, 32)


def packed_fours(x: Tensor) -> Tensor:
    """Weights that torch packs as its processor reads them, with a scale and a zero for each group."""
    grids = torch.linspace(0.01, 0.3, 192, dtype=x.dtype).reshape(2, 48, 2)
    result: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, _PACKED_FOR_CPU, 32, grids)
    return result


def rounded_inputs(x: Tensor) -> Any:
    """The same with inputs that are rounded to integers too: with a scale for each row of the weight, or each group."""
    multiply = torch.ops.aten._dyn_quant_matmul_4bit
    return multiply(x, _PACKED_BY_ROWS, 64, 64, 32), multiply(-x, _PACKED_BY_GROUPS, 32, 64, 32)


def _packed_to_round_inputs(block: int, dtype: torch.dtype, bias: Tensor | None) -> Tensor:
    scales = torch.linspace(0.01, 0.3, 2048 // block).reshape(32, -1).to(dtype)
    packed: Tensor = torch.ops.aten._dyn_quant_pack_4bit_weight(_HALVES, scales, bias, block, 64, 32)
    return packed


_PACKED_FOR_CPU = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
    torch.arange(3072, dtype=torch.int32).remainder(13).reshape(48, 64), 2
)
_PACKED_BY_ROWS = _packed_to_round_inputs(64, torch.float32, torch.linspace(-1, 1, 32))
_PACKED_BY_GROUPS = _packed_to_round_inputs(32, torch.bfloat16, None)


def integer_product(x: Tensor) -> Tensor:
    return torch._int_mm(x.clamp(-4, 4).to(torch.int8).repeat(32, 1), _WEIGHT.t())


quantized_decomposed_grids = op(decomposed_grids, floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
quantized_decomposed_channels = op(decomposed_channels, floats(2, 3, 4), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
quantized_decomposed_layer = op(decomposed_layer, numbers(3, 16), dynamic=_ROWS, without_nan=_NAN_IN_INTEGERS)
quantized_decomposed_weights = op(decomposed_weights, floats(3, 16), dynamic=_ROWS)
quantized_decomposed_dynamic = op(decomposed_dynamic, floats(3, 16))
unpacked_four_bits = op(unpacked_fours, floats(3, 16), dynamic=_ROWS)
packed_four_bits = op(
    packed_fours, floats(3, 64), dtypes=[torch.float32, torch.bfloat16], dynamic=_ROWS, tier="default"
)
rounded_inputs_of_four_bits = op(
    rounded_inputs,
    floats(3, 64),
    dynamic=_ROWS,
    tier="default",
    without_nan=_NAN_IN_INTEGERS,
    without_draws="torch does not check that there are as many columns as packed weights have",
)
int_mm = op(integer_product, floats(1, 16))

# --- weights of layers that are stored as integers, as libraries store them ------------------------------------------

_SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32)
_WORDS = torch.arange(64 * 32, dtype=torch.int64).mul(97_003_139).remainder(2**31).to(torch.int32)
_ZERO_WORDS = torch.arange(32, dtype=torch.int64).mul(54_018_521).remainder(2**31).to(torch.int32)


def _fours(words: Tensor, axis: int) -> Tensor:
    """The eight integers of each word, of four bits, along an axis behind which all others are."""
    shifts = _SHIFTS.reshape(-1, *(1,) * (-axis - 1))
    return (words.unsqueeze(axis) >> shifts).to(torch.int16) & 15


class GroupedWeights(nn.Module):
    """The layer of GPTQ: eight rows in each word, and a group for each feature, which need not be that of the next."""

    groups: Tensor
    words: Tensor
    zeros: Tensor
    scales: Tensor

    def __init__(self, in_order: bool = True) -> None:
        super().__init__()
        groups = torch.arange(64) if in_order else torch.arange(64).mul(5).remainder(64)
        self.register_buffer("groups", groups // 16)
        self.register_buffer("words", _WORDS[: 8 * 32].reshape(8, 32))
        self.register_buffer("zeros", _ZERO_WORDS[:16].reshape(4, 4))
        self.register_buffer("scales", torch.linspace(0.01, 0.05, 128).reshape(4, 32))
        self.bias = nn.Parameter(torch.linspace(-1, 1, 32))

    def forward(self, x: Tensor) -> Tensor:
        zeros = _fours(self.zeros, -1).reshape(4, 32)
        integers = _fours(self.words, -2).reshape(64, 32)
        weight = self.scales[self.groups] * (integers - zeros[self.groups])
        return x @ weight + self.bias


class InterleavedWeights(nn.Module):
    """The layer of AWQ: eight columns in each word, the even ones first."""

    words: Tensor
    zeros: Tensor
    scales: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("words", _WORDS[: 64 * 4].reshape(64, 4))
        self.register_buffer("zeros", _ZERO_WORDS[:8].reshape(2, 4))
        self.register_buffer("scales", torch.linspace(0.01, 0.05, 64).reshape(2, 32))

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(32).reshape(-1, 8)[:, [0, 4, 1, 5, 2, 6, 3, 7]].flatten()
        integers, zeros = (_fours(words, -1).flatten(1)[:, places] for words in (self.words, self.zeros))
        weight = (integers - zeros.repeat_interleave(32, dim=0)) * self.scales.repeat_interleave(32, dim=0)
        return torch.matmul(x, weight)


class StoredWeights(nn.Module):
    """The layers of torchao: integers in bytes, of few bits in groups, of two bits, and of eight for each row, by whose
    scales the result is multiplied."""

    bytes: Tensor
    scales: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer(
            "bytes", torch.arange(32 * 64).mul(37).remainder(256).sub(128).to(torch.int8).reshape(32, 64)
        )
        self.register_buffer("scales", torch.linspace(0.01, 0.05, 128).reshape(32, 4))

    def _by_groups(self, integers: Tensor) -> Tensor:
        grouped = integers.reshape(32, 4, 16).float() * self.scales.unsqueeze(-1)
        return grouped.reshape(32, 64)

    def forward(self, x: Tensor) -> Any:
        rows = torch.matmul(x, self.bytes.t().to(x.dtype)) * self.scales[:, 0]
        fours = F.linear(x, self._by_groups(self.bytes >> 4), self.scales[:, 1])
        twos = F.linear(x, self._by_groups(self.bytes >> 6))
        return rows, fours, twos


class StoredTable(StoredWeights):
    """Tables of rows, of few bits and of eight."""

    def forward(self, rows: Tensor) -> Any:
        return F.embedding(rows, self._by_groups(self.bytes >> 4)), F.embedding(rows, self._by_groups(self.bytes))


weights_in_words = op(
    GroupedWeights, floats(3, 64), in_order=[True, False], nodes={13: 7, 21: 4}, dynamic=_ROWS, tier="default"
)
weights_in_interleaved_words = op(InterleavedWeights, floats(3, 64), nodes={21: 2}, dynamic=_ROWS, tier="default")
weights_in_bytes = op(StoredWeights, floats(3, 64), nodes={21: 7}, dynamic=_ROWS, tier="default")
table_in_bytes = op(StoredTable, ints(4, high=32), nodes={21: 18}, dynamic=_ROWS, tier="default")
