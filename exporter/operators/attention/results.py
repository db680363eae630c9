"""The result of an attention: its shape, and the layout that the kernel leaves which torch chooses on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from onnx_parity.exporter.graph.graph import Size, is_broadcast, same_shape, same_size
from onnx_parity.exporter.recording.fakes.metadata import is_surely_contiguous
from onnx_parity.exporter.registry.results import Contiguous, Strided, result_of
from onnx_parity.exporter.torch_inside.dispatcher import kernels_of_tensors_with_data
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.modes import outside_of_modes
from onnx_parity.exporter.torch_inside.pytree import tree_map_only

_attention = torch.ops.aten.scaled_dot_product_attention.default


@result_of(
    "aten::scaled_dot_product_attention",
    why=(
        "torch's fake kernels import sympy, 0.3 s of a process's first export, and ask many questions about dynamic "
        "sizes, 5 to 50 ms: whether the number of queries or keys is 1, which is not known if it depends on values. "
        "Those for a GPU ask for plain sizes"
    ),
)
def scaled_dot_product_attention(
    query: FakeTensor, key: FakeTensor, value: FakeTensor, *args: Any, **options: Any
) -> Any:
    """On a CPU, for tensors that are known to fit because their sizes are the same expressions."""
    sizes: list[Size] = [size for each in (query, key) for size in each.shape[:-1]]
    are_known = all(isinstance(size, int) or size.node.has_hint() for size in sizes)
    if not are_known and same_shape(query.shape[:-2], value.shape[:-2]):
        return Contiguous(query.dtype, (*query.shape[:-1], value.shape[-1]))
    if query.fake_device.type != "cpu":
        if query.fake_mode.shape_env is None:
            return NotImplemented
        here = tree_map_only(torch.Tensor, torch.Tensor.cpu, ((query, key, value, *args), options))
        there: torch.Tensor = _attention(*here[0], **here[1])
        return Strided(there.dtype, tuple(there.shape), there.stride())
    tensors = [each for each in (query, key, value, *args) if isinstance(each, torch.Tensor)]
    if all(isinstance(number, int) for each in tensors for number in (*each.shape, *each.stride())):
        strides = _strides_of_flash_attention(query, key, value, *args, **options)
        return NotImplemented if strides is None else Strided(query.dtype, tuple(query.shape), strides)
    batch = _batch(query, key, value)
    if batch is None or not _fit(query, key, value, batch, *args, **options):
        return NotImplemented  # torch asks its questions about the sizes, or refuses them.
    if _strides_of_flash_attention(query, key, value, *args, **options) is None:
        return Contiguous(query.dtype, (*batch, query.shape[-2], value.shape[-1]))
    if is_surely_contiguous(query) or is_surely_contiguous(query, axes=(0, 2, 1, 3)):
        return Strided(query.dtype, tuple(query.shape), query.stride())
    return NotImplemented


def _strides_of_flash_attention(query: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[int, ...] | None:
    """The strides of the result in the example; None if torch does not choose flash attention on a CPU."""
    with kernels_of_tensors_with_data(), outside_of_modes():
        like, *arguments = map(_allocated, (query, *args))
        if 0 in arguments[0].shape[:-1]:
            return None  # torch does not choose for no keys, and would divide by a number of heads that is 0.
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
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    batch: Sequence[Size],
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> bool:
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
    return is_mask and all(is_broadcast(own) or same_size(own, size) for own, size in aligned)


def _batch(*tensors: torch.Tensor) -> list[Size] | None:
    """The axes before the last two to which the tensors are broadcast; None if that is not known."""
    if len({tensor.ndim for tensor in tensors}) > 1:
        return None
    batch: list[Size] = []
    for sizes in zip(*(tensor.shape[:-2] for tensor in tensors), strict=True):
        others = [size for size in sizes if not is_broadcast(size)] or [1]
        if not all(same_size(size, others[0]) for size in others):
            return None
        batch.append(others[0])
    return batch
