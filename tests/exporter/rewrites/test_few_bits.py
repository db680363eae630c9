"""`weight_bits`: the weights of products as integers, made when the model is written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.errors import ArgumentError, WriteError

safetensors = pytest.importorskip("safetensors.torch")


class _Layers(torch.nn.Module):
    """A layer with a bias, one whose weight is not transposed, one that a table shares, and one without blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 96)
        self.plain = torch.nn.Parameter(torch.randn(96, 32) / 8)
        self.table = torch.nn.Embedding(97, 32)
        self.odd = torch.nn.Linear(97, 5)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.first(x).relu() @ self.plain + self.table(ids)
        scores = torch.nn.functional.linear(hidden, self.table.weight)
        return scores, self.odd(scores)


_INPUTS = (torch.randn(2, 3, 64), torch.randint(97, (2, 3)))


def _rounded(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """The numbers that the integers of a matrix stand for, whose columns have blocks of 32 rows."""
    blocks = weight.detach().t().reshape(weight.shape[1], -1, 32)
    least, most = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    scale = torch.where(most > -least, most, least) / -(2 ** (bits - 1))
    integers = (blocks / scale).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers: torch.Tensor = integers * scale
    return numbers.reshape(weight.shape[1], -1).t()


def _expected(model: _Layers, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, ids = _INPUTS
    with torch.no_grad():
        hidden = (x @ _rounded(model.first.weight.t(), bits) + model.first.bias).relu()
        hidden = hidden @ _rounded(model.plain, bits) + model.table(ids)
        scores = hidden @ _rounded(model.table.weight.t(), bits)
        return scores, model.odd(scores)


def _run(path: Path) -> list[torch.Tensor]:
    exact = onnxruntime.SessionOptions()
    exact.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(path, exact)
    names = [each.name for each in session.get_inputs()]
    found: Any = session.run(None, {name: each.numpy() for name, each in zip(names, _INPUTS, strict=True)})
    return [torch.from_numpy(each) for each in found]


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_integers_are_made_from_a_checkpoint(tmp_path: Path, bits: int, dynamic: bool, stored: torch.dtype) -> None:
    torch.manual_seed(0)
    model = _Layers().to(stored).float().eval()
    safetensors.save_file(
        {name: each.to(stored) for name, each in model.state_dict().items()}, tmp_path / "weights.safetensors"
    )
    with torch.device("meta"):
        empty = _Layers().eval()
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "model.onnx"
    onnx_parity.export(
        empty, _INPUTS, path, opset_version=21, weight_bits=bits,
        dynamic_shapes=({0: "batch"}, {0: "batch"}) if dynamic else None,
        external_data=onnx_parity.ExternalData(safetensors=[tmp_path / "weights.safetensors"]),
    )  # fmt: skip
    onnx.checker.check_model(path, full_check=True)
    kinds = Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
    assert kinds["DequantizeLinear"] == 3
    for got, wanted in zip(_run(path), _expected(model, bits), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_in_memory_for_onnxruntime(tmp_path: Path, bits: int) -> None:
    model = _Layers().eval()
    program = onnx_parity.export(
        model, _INPUTS, tmp_path / "model.onnx", opset_version=21, weight_bits=bits, target="onnxruntime"
    )
    kinds = Counter(node.op_type for node in program.model.graph)
    assert kinds["MatMulNBits"] == 3 and "DequantizeLinear" not in kinds
    # A call of the program rounds weights alone; the file says that rows may be rounded too.
    for got, wanted in zip(program(*_INPUTS), _expected(model, bits), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_blocks_of_zeros_and_replaced_weights(tmp_path: Path) -> None:
    layer = torch.nn.Linear(64, 7, bias=False).eval()
    rows = torch.randn(2, 64)
    program = onnx_parity.export(layer, (rows,), opset_version=21, weight_bits=4)
    program.apply_weights({"weight": torch.zeros(7, 64)})
    program.save(tmp_path / "model.onnx")
    (got,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {program.input_names[0]: rows.numpy()})
    assert not got.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_bits": 3}, "weight_bits is 3: give 4 or 8"),
        ({"weight_bits": 4, "opset_version": 18}, "weight_bits=4 needs an opset from 21 on"),
        ({"weight_bits": 4, "verify": True}, "verify an export without weight_bits"),
        ({"weight_bits": 4, "export_params": False}, "cannot be given with export_params=False"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        onnx_parity.export(torch.nn.Linear(64, 7), (torch.randn(2, 64),), **{"opset_version": 21, **options})


def test_a_checkpoint_of_another_program_is_refused(tmp_path: Path) -> None:
    safetensors.save_file({"weight": torch.randn(7, 32)}, tmp_path / "weights.safetensors")
    with torch.device("meta"):
        layer = torch.nn.Linear(64, 7, bias=False)
    with pytest.raises(WriteError, match=r"'weight' is torch.float32\[7, 64\] in the program"):
        onnx_parity.export(
            layer, (torch.randn(2, 64),), tmp_path / "model.onnx", opset_version=21, weight_bits=4,
            external_data=onnx_parity.ExternalData(safetensors=[tmp_path / "weights.safetensors"]),
        )  # fmt: skip
