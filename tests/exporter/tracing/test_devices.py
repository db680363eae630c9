"""Programs on a GPU: they are recorded, lowered, folded and written as those on the CPU are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnx_parity
from tests.exporter.on_gpu import PROGRAMS, on_gpu

BACKENDS = cast("Any", torch.backends)
MATMUL, CUDNN = BACKENDS.cuda.matmul, BACKENDS.cudnn


@pytest.mark.slow
def test_programs_on_a_gpu_are_exported_as_those_on_the_cpu_are() -> None:
    command = [sys.executable, "-m", "tests.exporter.on_gpu"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(found.stdout)
    assert len(told) >= len(PROGRAMS)
    assert {name: wrong for name, wrong in told.items() if wrong} == {}


class Tabled(nn.Module):
    """What depends only on weights is computed when the model is written, other literals when it is lowered."""

    table: Tensor
    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(300.0).reshape(5, 60))
        self.register_buffer("rows", torch.tensor([[0, 1], [1, 3]]))
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.table[self.rows, self.rows + 1].sum() + self.table[::2, 1::2].log1p().sum()
        features = self.conv(x).mean((2, 3)) + chosen / 1000
        states: Tensor = self.lstm(features[:, None])[0]
        first: Tensor = features.roll(1, 0).triu()[0]
        return states + first.sum()


@pytest.mark.parametrize("dynamic", [None, {"x": {2: "height"}}], ids=["static", "dynamic"])
def test_a_default_device_changes_no_model(dynamic: dict[str, dict[int, str]] | None, tmp_path: Path) -> None:
    # `meta` is like a GPU a device whose tensors cannot be mixed with those of the CPU.
    model, x = Tabled().eval(), torch.randn(2, 3, 6, 6)
    wanted, path = model(x).detach().numpy(), tmp_path / "model.onnx"
    torch.set_default_device("meta")
    try:
        program = onnx_parity.export(model, (x,), input_names=["x"], dynamic_axes=dynamic, verify=True)
        program.save(path)
        got = program(x).numpy()
    finally:
        torch.set_default_device(None)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    written = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(written[0], wanted, rtol=1e-5, atol=1e-5)
    here = onnx_parity.export(model, (x,), input_names=["x"], dynamic_axes=dynamic)
    here.save(tmp_path / "here.onnx")
    assert onnx.load(path) == onnx.load(tmp_path / "here.onnx")


def attention(x: Tensor, mask: Tensor) -> Tensor:
    causal = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    return causal + F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_attention_on_cuda_is_that_of_the_cpu(dynamic: bool) -> None:
    # torch's kernels for CUDA read the sizes of their inputs as plain numbers.
    inputs = torch.randn(2, 4, 7, 8), torch.randn(2, 1, 7, 7) > 0
    axes = {"x": {0: "batch", 2: "length"}, "mask": {0: "batch", 2: "length", 3: "length"}} if dynamic else None
    models = [
        onnx_parity.export(attention, each, input_names=["x", "mask"], dynamic_axes=axes)
        for each in (inputs, tuple(on_gpu(each, "cuda") for each in inputs))
    ]
    assert models[0].model_proto == models[1].model_proto


def _choose_for_libraries() -> None:
    MATMUL.allow_tf32 = CUDNN.allow_tf32 = True


def _choose_for_parts() -> None:
    MATMUL.fp32_precision = CUDNN.rnn.fp32_precision = "tf32"
    CUDNN.conv.fp32_precision = "ieee"


def _choose_for_products() -> None:
    torch.set_float32_matmul_precision("medium")


def _choose_for_all() -> None:
    BACKENDS.fp32_precision = "tf32"


def _precisions() -> list[str]:
    return [part.fp32_precision for part in (MATMUL, CUDNN.conv, CUDNN.rnn)]


def _choose_defaults() -> None:
    torch.set_float32_matmul_precision("highest")
    BACKENDS.fp32_precision = MATMUL.fp32_precision = "none"
    CUDNN.allow_tf32 = True
    assert _precisions() == ["none", "tf32", "tf32"]


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has used a GPU. The settings are torch's defaults before and afterwards."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    _choose_defaults()
    yield
    _choose_defaults()


@pytest.mark.usefixtures("as_on_gpu")
@pytest.mark.parametrize(
    "choose", [lambda: None, _choose_for_libraries, _choose_for_parts, _choose_for_products, _choose_for_all]
)
def test_programs_are_verified_with_all_bits_of_float32(choose: Callable[[], None]) -> None:
    """cuDNN's recurrent layers and convolutions are otherwise off by a thousandth, and so are products if asked for."""
    choose()
    before = _precisions()
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append(_precisions())
        return x + 1

    onnx_parity.export(program, (torch.ones(2),), verify=True)
    recorded, *verified = seen
    assert recorded == _precisions() == before
    assert "tf32" in before
    assert len(verified) > 1
    assert all("tf32" not in each for each in verified)
    if choose is _choose_for_products:
        # torch refuses to read it where its older and its newer settings disagree.
        assert torch.get_float32_matmul_precision() == "medium"
