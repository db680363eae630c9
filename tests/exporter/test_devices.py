"""Programs on a GPU: they are recorded, lowered, folded and written as those on the CPU are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch

import onnx_parity
from tests.exporter.on_gpu import PROGRAMS

BACKENDS = cast("Any", torch.backends)
MATMUL, CUDNN = BACKENDS.cuda.matmul, BACKENDS.cudnn


def test_programs_on_a_gpu_are_exported_as_those_on_the_cpu_are() -> None:
    command = [sys.executable, "-m", "tests.exporter.on_gpu"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(found.stdout)
    assert len(told) >= len(PROGRAMS)
    assert {name: wrong for name, wrong in told.items() if wrong} == {}


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


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has used a GPU. The settings are torch's defaults afterwards."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    yield
    torch.set_float32_matmul_precision("highest")
    BACKENDS.fp32_precision = MATMUL.fp32_precision = "none"
    CUDNN.allow_tf32 = True
    assert _precisions() == ["none", "tf32", "tf32"]


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
