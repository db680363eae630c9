"""Programs on a GPU: they are recorded, lowered, folded and written as those on the CPU are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch

import onnx_parity
from tests.exporter.on_gpu import PROGRAMS

MATMUL, CUDNN = torch.backends.cuda.matmul, cast("Any", torch.backends.cudnn)


def test_programs_on_a_gpu_are_exported_as_those_on_the_cpu_are() -> None:
    command = [sys.executable, "-m", "tests.exporter.on_gpu"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(found.stdout)
    assert len(told) >= len(PROGRAMS)
    assert {name: wrong for name, wrong in told.items() if wrong} == {}


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has used a GPU. The settings are as they were afterwards."""
    before = MATMUL.allow_tf32, CUDNN.allow_tf32
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    yield
    MATMUL.allow_tf32, CUDNN.allow_tf32 = before


def seen_by_a_verified_program(*settings: tuple[object, str]) -> set[tuple[object, ...]]:
    """The values that torch's settings have while a program is run to verify its model."""
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(getattr(holder, name) for holder, name in settings))
        return x + 1

    onnx_parity.export(program, (torch.ones(2),), verify=True)
    recorded, *verified = seen
    assert recorded == tuple(getattr(holder, name) for holder, name in settings)
    return set(verified)


@pytest.mark.usefixtures("as_on_gpu")
def test_programs_are_verified_with_all_bits_of_float32() -> None:
    """cuDNN's recurrent layers and convolutions are otherwise off by a thousandth, and so are products if asked for."""
    MATMUL.allow_tf32 = CUDNN.allow_tf32 = True
    assert seen_by_a_verified_program((MATMUL, "allow_tf32"), (CUDNN, "allow_tf32")) == {(False, False)}
    assert (MATMUL.allow_tf32, CUDNN.allow_tf32) == (True, True)


@pytest.mark.usefixtures("as_on_gpu")
def test_so_they_are_where_the_user_has_chosen_by_the_newer_setting() -> None:
    MATMUL.fp32_precision = CUDNN.rnn.fp32_precision = "tf32"
    CUDNN.conv.fp32_precision = "ieee"
    settings = [(holder, "fp32_precision") for holder in (MATMUL, CUDNN.conv, CUDNN.rnn)]
    assert seen_by_a_verified_program(*settings) == {("ieee", "ieee", "ieee")}
    assert [getattr(*each) for each in settings] == ["tf32", "ieee", "tf32"]
