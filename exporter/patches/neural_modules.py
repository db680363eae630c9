"""Patches modules and functions of `torch.nn`: no fused kernels, no checks of data-dependent sizes, a single device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch
from onnx_parity.exporter.torch_inside.tensors import canonical_mask

__all__ = ["PATCHES", "WITH_SYMBOLS"]

asks_for_its_caller(__file__)


def _no_fast_path(torchs: Callable[[], bool]) -> bool:
    """Disable the fused kernels of attention and encoder layers, which are one opaque operator without a lowering."""
    return False


def _encode(
    torchs: Callable[..., torch.Tensor],
    self: torch.nn.TransformerEncoder,
    src: torch.Tensor,
    mask: torch.Tensor | None = None,
    src_key_padding_mask: torch.Tensor | None = None,
    is_causal: bool | None = None,
) -> torch.Tensor:
    """Return zeros at padding, as torch's fast path does."""
    if src_key_padding_mask is None or not _takes_padding_out(self, src, mask):
        return torchs(self, src, mask, src_key_padding_mask, is_causal)
    from onnx_parity.exporter.kinds.padded_rows import zero_padding  # Few programs need it.

    padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", None, "mask", src.dtype)
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=None, is_causal=False, src_key_padding_mask=padding)
    assert padding is not None
    output = zero_padding(output, padding.logical_not())
    return output if self.norm is None else self.norm(output)


def _takes_padding_out(encoder: torch.nn.TransformerEncoder, src: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether an encoder takes out padding of which it is given a mask. `mask` is its other mask."""
    uses_them = getattr(encoder, "use_nested_tensor", False)  # An encoder that was saved years ago lacks it.
    usual = mask is None and not torch.is_autocast_enabled()
    return uses_them and not encoder.layers[0].training and src.dim() == 3 and usual


def _check_unless_packed(
    torchs: Callable[..., None],
    self: torch.nn.RNNBase,
    input: torch.Tensor,
    hidden: Any,
    batch_sizes: torch.Tensor | None,
) -> None:
    """Skip the check that compares a state's size with the number of packed sequences, which depends on data."""
    if batch_sizes is None:
        torchs(self, input, hidden, batch_sizes)


def _on_one_device(torchs: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the module itself, instead of copies of it on several devices with parts of the batch."""
    return self.module(*args, **kwargs)


def _with_answers(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Answer questions about sizes that are passed as arguments, which torch refuses: `is_causal=length > 1 and ...`"""
    return torchs(
        *args, **{name: bool(given) if isinstance(given, torch.SymBool) else given for name, given in kwargs.items()}
    )


def _in_one_piece(
    torchs: Callable[..., Any], input: torch.Tensor, *args: Any, options: Any = None, **kwargs: Any
) -> Any:
    """Compute the loss by its definition: `options` divides it into chunks, which saves memory for gradients."""
    if options is None or input.dtype not in (torch.float16, torch.bfloat16):
        return torchs(input, *args, **kwargs)
    # The chunks are computed in float32.
    wide = [_in_float32(each) for each in (input, *args)]
    return torchs(*wide, **{name: _in_float32(given) for name, given in kwargs.items()}).to(input.dtype)


def _in_float32(given: Any) -> Any:
    return given.float() if isinstance(given, torch.Tensor) and given.is_floating_point() else given


PATCHES: tuple[Patch, ...] = (
    FunctionCode(torch.backends.mha, "get_fastpath_enabled", _no_fast_path),
    FunctionCode(torch.nn.TransformerEncoder, "forward", _encode),
    FunctionCode(torch.nn.RNNBase, "check_forward_args", _check_unless_packed),
    FunctionCode(torch.nn.LSTM, "check_forward_args", _check_unless_packed),
    FunctionCode(torch.nn.DataParallel, "forward", _on_one_device),
    # torch 2.13 has it.
    FunctionCode(torch.nn.functional, "linear_cross_entropy", _in_one_piece, may_be_absent=True),
    FunctionCode(DistributedDataParallel, "forward", _on_one_device),
)
WITH_SYMBOLS: tuple[Patch, ...] = (
    FunctionAttribute(torch.nn.functional, "scaled_dot_product_attention", _with_answers),
)
