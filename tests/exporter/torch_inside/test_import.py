"""Importing the exporter imports no runtime and no compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

import onnx_parity
from tests.fresh import run_after_torch


def test_import_brings_no_runtime_and_no_compiler() -> None:
    heavy = ("onnxruntime", "torch._dynamo", "torch._inductor", "onnxscript", "torchvision")
    program = f"import sys, onnx_parity.exporter; print([name for name in {heavy!r} if name in sys.modules])"
    done = run_after_torch(program)
    assert done.stdout == "[]\n"


def test_import_defines_the_operators_that_saved_programs_call() -> None:
    names = ("onnx_operator", "rotary_embedding", "quantize", "dequantize")
    program = f"import torch, onnx_parity.exporter; [getattr(torch.ops.onnx_parity, name) for name in {names!r}]"
    assert run_after_torch(program).returncode == 0


@pytest.mark.parametrize(
    "function", [onnx_parity.export, onnx_parity.capture_program, onnx_parity.ONNXProgram.rename_axes]
)
def test_annotations_can_be_resolved(function: Callable[..., Any]) -> None:
    assert "return" in get_type_hints(function)


_WITHOUT_A_LOOK_FOR_GARBAGE = """
import gc, torch
frozen, looks = gc.get_freeze_count(), []
gc.callbacks.append(lambda phase, info: looks.append(info))
import onnx_parity
made = len(looks)
assert gc.isenabled() and gc.get_freeze_count() <= frozen
print(made)
"""

_FROZEN_BEFORE = """
import gc, torch
gc.freeze()
frozen = gc.get_freeze_count()
import onnx_parity
print(gc.get_freeze_count() > 0.9 * frozen > 0)
"""


@pytest.mark.parametrize(
    ("program", "printed"), [(_WITHOUT_A_LOOK_FOR_GARBAGE, "0"), (_FROZEN_BEFORE, "True")], ids=["unfrozen", "frozen"]
)
def test_import_makes_nobody_look_for_garbage_and_thaws_nothing(program: str, printed: str) -> None:
    done = run_after_torch(program)
    assert done.stdout.strip() == printed
