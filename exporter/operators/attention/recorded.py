"""What is recorded for attention, which is kept whole, and the sizes and strides of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from onnx_parity.exporter.dispatch.gradients import is_seen_once
from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.operators.recorded.view_sizes import is_surely_contiguous
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole, result_of_whole
from onnx_parity.exporter.torch_inside.dispatcher import kernels_of_tensors_with_data
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.modes import outside_of_modes

_aten = torch.ops.aten
_CPU = torch.device("cpu")

keep_whole(
    "aten::scaled_dot_product_attention",
    why="torch chooses a kernel for the device, but the definition of attention does not depend on the device",
)


@instead_of(
    "aten::scaled_dot_product_attention",
    why="the kernels that torch chooses have derivatives that are kernels too; those of the definition are operators",
)
def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    if is_seen_once((query, key, value, attn_mask)):
        return NotImplemented
    if attn_mask is not None and attn_mask.dtype is torch.bool:  # The definition adds masks.
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return _aten._scaled_dot_product_attention_math.default(query, key, value, attn_mask, *args, **kwargs)[0]


@result_of_whole(
    "aten::scaled_dot_product_attention",
    why=(
        "torch's fake kernel imports sympy, 0.3 s of a process's first export, and asks many questions about dynamic "
        "sizes, 5 to 50 ms"
    ),
)
def size_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The result on a CPU: its strides are those of the kernel that torch chooses.

    With dynamic sizes, only for tensors that are known to fit because their sizes are the same expressions.
    """
    if not isinstance(query, FakeTensor):
        strides = _strides_of_flash_attention(query, key, value, *args, **kwargs)
        return NotImplemented if strides is None else query.new_empty_strided(query.shape, strides)
    batch = _batch(query, key, value)
    if batch is None or query.fake_device != _CPU or not _fit(query, key, value, batch, *args, **kwargs):
        return NotImplemented  # torch asks its questions about the sizes, or refuses them.
    if _strides_of_flash_attention(query, key, value, *args, **kwargs) is None:
        return torch.empty((*batch, query.shape[-2], value.shape[-1]), dtype=query.dtype)
    if is_surely_contiguous(query) or is_surely_contiguous(query.transpose(1, 2)):
        return torch.empty_strided(query.shape, query.stride(), dtype=query.dtype)
    return NotImplemented


def _strides_of_flash_attention(query: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[int, ...] | None:
    """The strides of the result in the example; None if torch does not choose flash attention on a CPU."""
    with kernels_of_tensors_with_data(), outside_of_modes():
        like, *arguments = map(_allocated, (query, *args))
        chosen = torch._fused_sdp_choice(like, *arguments, **{name: _allocated(each) for name, each in kwargs.items()})
        return torch.empty_like(like).stride() if chosen == SDPBackend.FLASH_ATTENTION.value else None


def _allocated(argument: Any) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    sizes, strides = (tuple(map(_in_example, numbers)) for numbers in (argument.shape, argument.stride()))
    # Nothing reads or writes its memory, so the system does not provide any.
    return torch.empty_strided(sizes, strides, dtype=argument.dtype)


def _in_example(size: Size) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def _fit(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, batch: Sequence[Size],
    mask: torch.Tensor | None = None, dropout: float = 0.0, is_causal: bool = False, **options: Any,
) -> bool:  # fmt: skip
    """Whether the sizes are known to fit together."""
    tensors = [query, key, value, *([] if mask is None else [mask])]
    sizes = [size for each in tensors for size in each.shape]
    if dropout or options.keys() - {"scale"} or (is_causal and mask is not None):
        return False
    if not all(isinstance(size, int) or size.node.has_hint() for size in sizes):
        return False
    if not query.dtype == key.dtype == value.dtype or len(batch) != 2:
        return False
    if not same_size(query.shape[-1], key.shape[-1]) or not same_size(key.shape[-2], value.shape[-2]):
        return False
    if mask is None:
        return True
    scores = [*batch, query.shape[-2], key.shape[-2]]
    aligned = zip(reversed(mask.shape), reversed(scores), strict=False)
    is_mask = mask.dtype in (torch.bool, query.dtype) and 2 <= mask.ndim <= len(scores)
    return is_mask and all(same_size(own, 1) or same_size(own, size) for own, size in aligned)


def _batch(*tensors: torch.Tensor) -> list[Size] | None:
    """The axes before the last two to which the tensors are broadcast; None if that is not known."""
    if len({tensor.ndim for tensor in tensors}) > 1:
        return None
    batch: list[Size] = []
    for sizes in zip(*(tensor.shape[:-2] for tensor in tensors), strict=True):
        others = [size for size in sizes if not same_size(size, 1)] or [1]
        if not all(same_size(size, others[0]) for size in others):
            return None
        batch.append(others[0])
    return batch
