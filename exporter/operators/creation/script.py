"""Tensors that scripts make of numbers that depend on values, or of sizes in a list of unknown length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.operators.creation.sizes import space_from_both_ends
from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import depends_on_values
from onnx_parity.exporter.script.operator_arguments import DTYPE_OF_NUMBER
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.unknown_numbers import dtype_of_result, with_numbers_as_tensors
from onnx_parity.exporter.script.values import ScriptList, as_stack

__all__: list[str] = []


@with_numbers_as_tensors("linspace", "logspace")
def space(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """Floats as means of both ends, weighted by the places between them: half as many nodes as from both ends.

    Integers are cut off, so that the last bit counts.
    """
    steps = blocks.number(given["steps"])
    start, end = (blocks.as_tensor(given[name]).to(torch.float64) for name in ("start", "end"))
    dtype = dtype_of_result(given)
    if dtype.is_floating_point:
        places = torch.arange(steps, dtype=torch.float64)
        last = torch.sym_max(steps - 1, 1)
        spaced = start * ((last - places) / last) + end * (places / last)
    else:
        spaced = space_from_both_ends(start, end, steps)
    if "base" in given:
        spaced = torch.pow(blocks.as_tensor(given["base"]).to(torch.float64), spaced)
    return spaced.to(dtype)


@with_numbers_as_tensors("full")
def full(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given["fill_value"]):
        return NotImplemented
    value = blocks.as_tensor(given["fill_value"])
    return value.to(dtype_of_result(given, value)).expand(given["size"]).clone()


@with_numbers_as_tensors("new_full", "full_like")
def full_like(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    like = given["self"]
    if not depends_on_values(given["fill_value"]):
        return NotImplemented
    dtype = like.dtype if given.get("dtype") is None else DTYPE_OF_NUMBER[given["dtype"]]
    return blocks.as_tensor(given["fill_value"]).to(like.device, dtype).expand(given.get("size", like.shape)).clone()


@step_of("aten::zeros", "aten::ones", "aten::full", "aten::new_zeros", "aten::new_ones", "aten::new_full")
def fill_sizes_in_list(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """A tensor of one number, of sizes in a list whose length depends on values."""
    assert step.operator is not None
    given = dict(zip((parameter.name for parameter in step.operator.parameters), arguments, strict=False))
    sizes = given["size"]
    if not isinstance(sizes, ScriptList) or sizes.is_known:
        return NotImplemented
    number = blocks.as_tensor(given.get("fill_value", 1 if step.kind.endswith("ones") else 0))
    like = given.get("self")
    dtype = like.dtype if like is not None and given.get("dtype") is None else None
    of_number = number if "fill_value" in given else None
    device = given.get("device") or (number if like is None else like).device
    number = number.to(device, dtype or dtype_of_result(given, of_number))
    return recorded_lists.expand(blocks, number, as_stack(sizes, blocks))
