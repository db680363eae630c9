"""Seeds: the same everywhere and always, and different for different things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.cases.program import InputSet, build
from onnx_parity.harness.cases.seeds import stable_seed
from tests.harness.fakes import tensors


def test_a_seed_never_changes() -> None:
    assert stable_seed(0, "elu[alpha=1.0]", "x", "0") == 4829075763704921169
    assert stable_seed(1, "elu[alpha=1.0]", "x", "0") != stable_seed(0, "elu[alpha=1.0]", "x", "0")
    assert stable_seed(0, "ab", "c") != stable_seed(0, "a", "bc")


def test_a_seed_is_the_same_in_another_process() -> None:
    program = "from onnx_parity.harness.cases.seeds import stable_seed; print(stable_seed(3, 'a', 'b'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert printed == {f"{stable_seed(3, 'a', 'b')}\n"}


def test_inputs_depend_on_the_case_the_input_and_the_draw_and_on_nothing_else() -> None:
    pair = op(lambda x, y: x + y, floats(2, 3), floats(2, 3))
    first, again = (build(next(pair.cases("add")), Dtype.FLOAT32, Device.CPU, 0) for _ in range(2))
    x, y = tensors(first.inputs(InputSet()))
    assert torch.equal(x, tensors(again.inputs(InputSet()))[0])
    assert not torch.equal(x, y)
    assert not torch.equal(x, tensors(first.inputs(InputSet(draw=1)))[0])
    other_seed = build(next(pair.cases("add")), Dtype.FLOAT32, Device.CPU, 1)
    assert not torch.equal(x, tensors(other_seed.inputs(InputSet()))[0])
    other_case = build(next(op(F.elu, floats(2, 3)).cases("elu")), Dtype.FLOAT32, Device.CPU, 0)
    assert not torch.equal(x, tensors(other_case.inputs(InputSet()))[0])
    half = build(next(pair.cases("add")), Dtype.FLOAT16, Device.CPU, 0)
    assert torch.equal(tensors(half.inputs(InputSet()))[0], x.half())
