"""Encoder layers in scripts that take padding out of their rows, and put it in again."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.padded_rows import PaddedRows, zero_padding
from onnx_parity.exporter.operators.attention.recorded import MASK_OF_KEYS
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of

__all__: list[str] = []


@step_of("aten::_nested_tensor_from_mask_left_aligned")
def is_at_the_end(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    """Rows with padding elsewhere are computed in the same way, and `zero_padding` returns them as they are."""
    return True


@step_of("aten::_nested_tensor_from_mask")
def take_padding_out(blocks: Blocks, step: Step, arguments: list[Any]) -> PaddedRows:
    tensor, valid, *_ = arguments
    return PaddedRows(tensor, valid)


@step_of("aten::_transformer_encoder_layer_fwd")
def encode(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    rows, *weights, _, _ = arguments
    if not isinstance(rows, PaddedRows):
        return NotImplemented
    layer = torch.ops.aten._transformer_encoder_layer_fwd
    return PaddedRows(layer(rows.tensor, *weights, rows.valid.logical_not(), MASK_OF_KEYS), rows.valid)


@step_of("aten::to_padded_tensor")
def put_padding_in(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    rows, value, *_ = arguments
    if not isinstance(rows, PaddedRows) or value != 0:
        return NotImplemented
    return zero_padding(rows.tensor, rows.valid)
