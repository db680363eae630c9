"""Quantized tensors in programs: what is exported is covered by op_cases/quantization.py, what is refused is here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnx_parity


def _quantized(x: Tensor, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(x, 0.5, 3, dtype)


def wide(x: Tensor) -> Tensor:
    return _quantized(x, torch.qint32).dequantize()


def returned(x: Tensor) -> Tensor:
    return _quantized(x)


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
            returned,
            "the program returns a quantized tensor, which is no tensor of ONNX: return y.dequantize(), or "
            "y.int_repr() beside its scale and zero point",
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


def test_quantized_weights_are_refused_where_onnxruntime_would_quantize_them_again() -> None:
    layer = torch.ao.nn.quantized.Linear(2, 3)
    layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(3, 2), 0.5, 0, torch.qint8), torch.zeros(3))

    def program(x: Tensor) -> Tensor:
        y: Tensor = layer(_quantized(x)).dequantize()
        return y

    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as refused:
        onnx_parity.export(program, (torch.ones(1, 2),), opset_version=10)
    assert (
        "onnxruntime quantizes the weights of a layer anew, with other scales, where its input is quantized and a "
        "DequantizeLinear of this opset cannot make them (possible from opset 11)"
    ) in str(refused.value)


def masked(x: Tensor) -> Tensor:
    mask: Tensor = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, 0, 255)[1]
    return mask


def test_the_mask_of_fake_quantize_is_refused() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as refused:
        onnx_parity.export(masked, (torch.ones(3, 2),))
    assert "the program uses the mask that fake_quantize keeps for gradients: use the first result only" in str(
        refused.value
    )
