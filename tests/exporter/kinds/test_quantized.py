"""Quantized tensors in programs: what is exported is covered by op_cases/quantization.py, what is refused is here."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnx_parity


def _quantized(x: Tensor, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(x, 0.5, 3, dtype)


def wide(x: Tensor) -> Tensor:
    return _quantized(x, torch.qint32).dequantize()


def unknown(x: Tensor) -> Tensor:
    return torch.erf(_quantized(x)).dequantize()


def unknown_operator(x: Tensor) -> Tensor:
    result: Tensor = torch.ops.quantized.add_scalar(_quantized(x), 1.0).dequantize()
    return result


def per_channel(x: Tensor) -> Tensor:
    scale, zero_point = torch.tensor([0.1, 0.2]), torch.zeros(2, dtype=torch.int64)
    return torch.quantize_per_channel(x, scale, zero_point, 1, torch.qint8).dequantize()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            wide,
            "the program quantizes a tensor to torch.qint32, for which ONNX's QuantizeLinear has no integers: use "
            "torch.quint8 or torch.qint8",
        ),
        (
            unknown,
            "the program gives a quantized tensor to erf, which the exporter does not have for quantized tensors: "
            "dequantize it before, and quantize the result",
        ),
        (
            unknown_operator,
            "the program gives a quantized tensor to torch.ops.quantized.add_scalar, which the exporter does not have "
            "for quantized tensors: dequantize it before, and quantize the result",
        ),
        (
            per_channel,
            "the program quantizes a tensor with one scale for each channel, or with a scale that it computes from the "
            "values: only weights may have several, so use torch.quantize_per_tensor",
        ),
    ],
)
def test_what_cannot_be_quantized_is_refused(program: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as refused:
        onnx_parity.export(program, (torch.ones(3, 2),))
    assert str(refused.value).startswith(message)


def test_the_weights_of_a_quantized_layer_stay_integers() -> None:
    layer = torch.ao.nn.quantized.Linear(2, 3)
    weight = torch.quantize_per_tensor(torch.ones(3, 2), 0.5, 0, torch.qint8)
    layer.set_weight_bias(weight, torch.zeros(3))

    def program(x: Tensor) -> Tensor:
        y: Tensor = layer(_quantized(x)).dequantize()
        return y

    exported = onnx_parity.export(program, (torch.ones(1, 2),), opset_version=18)
    made = [node.op_type for node in exported.model_proto.graph.node]
    assert made.count("QuantizeLinear") == 2
    assert made.count("DequantizeLinear") == 3
    assert torch.equal(exported(torch.ones(1, 2)), program(torch.ones(1, 2)))


@pytest.mark.parametrize("opset", [9, 10, 12, 13])
def test_weights_with_scales_for_their_channels_are_not_quantized_again(opset: int) -> None:
    """Below opset 13 onnxruntime would do that between a DequantizeLinear and a QuantizeLinear."""
    layer = torch.ao.nn.quantized.Linear(2, 3)
    scales, zeros = torch.tensor([0.5, 0.01, 0.3]), torch.zeros(3, dtype=torch.int64)
    weight = torch.tensor([[1.0, -2.0], [0.03, 0.01], [0.3, 0.6]])
    layer.set_weight_bias(torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8), torch.zeros(3))
    layer.scale, layer.zero_point = 0.013, 100

    def program(x: Tensor) -> Tensor:
        y: Tensor = layer(_quantized(x)).dequantize()
        return y

    exported = onnx_parity.export(program, (torch.ones(1, 2),), opset_version=opset, verify=True)
    x = torch.tensor([[1.0, 0.3]])
    assert torch.equal(exported(x), program(x))
    made = {node.op_type for node in exported.model_proto.graph.node}
    assert ("DequantizeLinear" in made) == (opset >= 13)


# --- quantized tensors as inputs and outputs --------------------------------------------------------------------------


def _as_parts(y: Tensor) -> tuple[Tensor, float, int]:
    return y.int_repr(), y.q_scale(), y.q_zero_point()


def _assert_same(given: Tensor, wanted: Tensor) -> None:
    assert given.dtype is wanted.dtype
    assert _as_parts(given)[1:] == _as_parts(wanted)[1:]
    assert torch.equal(given.int_repr(), wanted.int_repr())


def positive(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x)
    return y, torch.cat([x, y]).dequantize()


@pytest.mark.parametrize("opset", [9, 10, 13, 21])
@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
@pytest.mark.parametrize("scripted", [False, True])
def test_quantized_tensors_are_inputs_and_outputs(opset: int, dtype: torch.dtype, scripted: bool) -> None:
    program: Callable[..., tuple[Tensor, Tensor]] = torch.jit.script(positive) if scripted else positive
    x = torch.quantize_per_tensor(torch.arange(-3.0, 3.0), 0.5, 3, dtype)
    exported = onnx_parity.export(program, (x,), opset_version=opset, dynamic_shapes={"x": {0: "n"}}, verify=True)
    assert exported.input_names == ("x.value", "x.scale", "x.zero_point")
    assert exported.output_names == ("output_0.value", "output_0.scale", "output_0.zero_point", "output_1")
    other = torch.quantize_per_tensor(torch.arange(-2.0, 2.0), 0.25, -1 if dtype is torch.qint8 else 8, dtype)
    for given in (x, other):
        result, floats = exported(given)
        _assert_same(result, positive(given)[0])
        assert torch.equal(floats, positive(given)[1])


def test_a_quantized_layer_takes_and_returns_quantized_tensors() -> None:
    layer = torch.ao.nn.quantized.Linear(2, 3)
    layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(3, 2), 0.5, 0, torch.qint8), torch.arange(3.0))
    layer.scale, layer.zero_point = 0.5, 10
    x = _quantized(torch.tensor([[1.0, 2.0], [-1.0, 4.0]]))
    for program in (layer, torch.jit.script(layer)):
        _assert_same(onnx_parity.export(program, (x,), opset_version=13)(x), layer(x))


@pytest.mark.parametrize("transposed", [False, True])
def test_quantized_layers_have_biases_at_opset_10(transposed: bool) -> None:
    kinds = torch.ao.nn.quantized
    convolution = kinds.ConvTranspose2d(2, 2, 3) if transposed else kinds.Conv2d(2, 2, 3)
    linear = kinds.Linear(2, 3)
    for layer, shape in ((convolution, (2, 2, 3, 3)), (linear, (3, 2))):
        weight = torch.arange(float(math.prod(shape))).reshape(shape) % 7 - 3
        layer.set_weight_bias(torch.quantize_per_tensor(weight, 0.5, 0, torch.qint8), torch.arange(float(shape[0])))
        layer.scale, layer.zero_point = 2.0, 64
    x = torch.arange(32.0).reshape(1, 2, 4, 4) % 5

    def program(x: Tensor) -> Tensor:
        y = convolution(_quantized(x))
        result: Tensor = linear(y[0, :, :, 0].transpose(0, 1).contiguous()).dequantize()
        return result

    exported = onnx_parity.export(program, (x,), opset_version=10)
    assert torch.equal(exported(x), program(x))


def test_a_float_tensor_is_not_taken_for_a_quantized_one() -> None:
    exported = onnx_parity.export(positive, (_quantized(torch.ones(2)),))
    with pytest.raises(onnx_parity.ArgumentError) as refused:
        exported(torch.ones(2))
    assert str(refused.value) == (
        "x is torch.float32[2], but the program was exported with a QuantizedTensor: give one of the same structure"
    )


def masked(x: Tensor) -> Tensor:
    mask: Tensor = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, 0, 255)[1]
    return mask


def test_the_mask_of_fake_quantize_is_refused() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as refused:
        onnx_parity.export(masked, (torch.ones(3, 2),))
    assert "the program uses the mask that fake_quantize keeps for gradients: use the first result only" in str(
        refused.value
    )


def test_as_strided_where_the_order_in_memory_is_known() -> None:
    def taken(x: Tensor) -> Tensor:
        return torch.as_strided(_quantized(x), (2, 2), (1, 2)).dequantize()

    exported = onnx_parity.export(taken, (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    assert torch.equal(exported(x), taken(x))
    with pytest.raises(onnx_parity.CaptureError, match="to as_strided whose order in memory is not known"):
        onnx_parity.export(lambda x: taken(x.t()), (x,))
