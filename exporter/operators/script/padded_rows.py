"""Rows of a batch that end with padding, which torch's encoders take out and put in again as zeros.

`nn.TransformerEncoder` does so in eval mode without gradients, by a nested tensor, if it is given a mask of the padding
and the padding is at the end of each row. A model computes all positions and makes those of the padding 0 at the end.
Importing this registers the steps of scripts.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.operators.recorded.kernels_only import MASK_OF_KEYS
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of

__all__ = ["encoded_without_padding", "takes_padding_out"]


class _Rows:
    """A nested tensor of a script: all positions, and which of them are no padding."""

    is_nested = True

    def __init__(self, tensor: torch.Tensor, valid: torch.Tensor) -> None:
        self.tensor = tensor
        self.valid = valid

    def __getattr__(self, name: str) -> Any:
        """The dtype, the device and the number of axes are those of the tensor."""
        return getattr(self.tensor, name)


@step_of("aten::_nested_tensor_from_mask_left_aligned")
def _is_at_the_end(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    """Rows with padding elsewhere are computed in the same way, and `_zeroed` returns them as they are."""
    return True


@step_of("aten::_nested_tensor_from_mask")
def _taken_out(blocks: Blocks, step: Step, arguments: list[Any]) -> _Rows:
    tensor, valid, *_ = arguments
    return _Rows(tensor, valid)


@step_of("aten::_transformer_encoder_layer_fwd")
def _layer(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    rows, *weights, _, _ = arguments
    if not isinstance(rows, _Rows):
        return NotImplemented
    layer = torch.ops.aten._transformer_encoder_layer_fwd
    return _Rows(layer(rows.tensor, *weights, rows.valid.logical_not(), MASK_OF_KEYS), rows.valid)


@step_of("aten::to_padded_tensor")
def _put_in(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    rows, value, *_ = arguments
    if not isinstance(rows, _Rows) or value != 0:
        return NotImplemented
    return _zeroed(rows.tensor, rows.valid)


def _zeroed(tensor: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Zeros at padding, if that is only at the end of rows."""
    is_after_padding = valid[:, 1:] & valid[:, :-1].logical_not()
    return torch.where((valid | is_after_padding.any()).unsqueeze(-1), tensor, 0)


def takes_padding_out(encoder: torch.nn.TransformerEncoder, src: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether an encoder takes out padding of which it is given a mask. `mask` is its other mask."""
    uses_them = getattr(encoder, "use_nested_tensor", False)  # An encoder that was saved years ago lacks it.
    usual = mask is None and not torch.is_autocast_enabled()
    return uses_them and not encoder.layers[0].training and src.dim() == 3 and usual


def encoded_without_padding(
    encoder: torch.nn.TransformerEncoder, src: torch.Tensor, padding: torch.Tensor
) -> torch.Tensor:
    """What the layers and the norm of an encoder return for rows with padding, in a program that is traced."""
    mask = F._canonical_mask(padding, "src_key_padding_mask", None, "mask", src.dtype)
    output = src
    for layer in encoder.layers:
        output = layer(output, src_mask=None, is_causal=False, src_key_padding_mask=mask)
    assert mask is not None
    output = _zeroed(output, mask.logical_not())
    return output if encoder.norm is None else encoder.norm(output)
