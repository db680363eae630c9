"""Autocast, while a program is recorded: where it casts the arguments of operators that are replaced or kept whole.

torch's autocast has kernels for some operators. They cast the arguments and call the operator again, which then runs
without autocast. Other operators call these, and what is recorded in the place of such a one has to cast as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.dispatcher import (
    DispatchKey,
    DispatchKeySet,
    OpOverload,
    can_be_decomposed,
    has_kernel_at,
    is_excluded_here,
    schema_of,
    without_keys,
)
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = ["called_under_autocast"]

_aten = torch.ops.aten

#: The dtypes that are cast.
_CAST = frozenset({torch.float32, torch.float16, torch.bfloat16})
#: The dispatch keys of autocast's kernels, by the type of the device.
_KEYS = {"cpu": DispatchKey.AutocastCPU, "cuda": DispatchKey.AutocastCUDA}
#: Recurrent layers and cells, which torch makes of products of their arguments and of what is computed from these.
_LAYERS = frozenset({"aten::gru", "aten::lstm", "aten::rnn_relu", "aten::rnn_tanh"})
#: Those whose new state is computed from a sum of products alone.
_OF_ONE_PRODUCT = frozenset({"aten::rnn_relu", "aten::rnn_tanh"})
_CELLS = frozenset({"aten::gru_cell", "aten::lstm_cell", "aten::rnn_relu_cell", "aten::rnn_tanh_cell"})
#: Of more operands than these, einsum multiplies pairs one after the other, and not each of them as matrices.
_PAIR = 2
#: Operators that are products of their arguments alone.
_PRODUCTS = frozenset({"aten::chain_matmul", "aten::einsum", "aten::linalg_multi_dot", "aten::tensordot"})
#: Operators of which only the last step is a product.
_ENDING_WITH_PRODUCT = frozenset({"aten::affine_grid_generator"})


def called_under_autocast(
    op: OpOverload, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call an operator while autocast is enabled. Without autocast, `call` would be called."""
    # The first argument of einsum is a text.
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    device = tensors[0].device.type if tensors else "cpu"
    key = _KEYS.get(device)
    if key is None or not torch.is_autocast_enabled(device) or is_excluded_here(key):
        return call(*args, **kwargs)
    dtype = torch.get_autocast_dtype(device)
    if records_here():
        recorder_here().autocast = dtype
    if has_kernel_at(op.name(), key.name):
        return op.redispatch(DispatchKeySet(key), *args, **kwargs)
    name = schema_of(op).name
    ends_with_product = name in _ENDING_WITH_PRODUCT
    if ends_with_product or not can_be_decomposed(op):
        with without_keys(DispatchKeySet(key)):
            result = call(*args, **kwargs)
        return result.to(dtype) if ends_with_product else result
    if name in _LAYERS:
        return _recurrent(op, dtype, call, args, kwargs)
    if name in _CELLS or (name == "aten::einsum" and len(tensors) > _PAIR):
        return op.decompose(*args, **kwargs)
    if name in _PRODUCTS and _multiplies_matrices(name, args):
        return _called_with(dtype, call, args, kwargs)
    return call(*args, **kwargs)


def _multiplies_matrices(name: str, args: Sequence[Any]) -> bool:
    """Whether torch computes a product as one of matrices, which autocast casts, and not element by element."""
    if name == "aten::tensordot":
        one, other, axes, _ = args
        return not len(axes) == one.ndim == other.ndim
    if name == "aten::einsum":
        operands, _, result = args[0].replace(" ", "").partition("->")
        one, _, other = operands.partition(",")
        summed = {letter for letter in one if letter.isalpha() and letter in other and letter not in result}
        return bool(summed)
    return True


def _recurrent(
    op: OpOverload, dtype: torch.dtype, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A recurrent layer: torch has cuDNN's and oneDNN's as a whole, and takes others apart into products in halves.

    The latter are computed in float32 here, which is more exact, and have the dtypes that torch's results have.
    """
    # A packed sequence comes with the sizes of its batches.
    given = args[2] if schema_of(op).arguments[1].name == "batch_sizes" else args[1]
    states = [given] if isinstance(given, torch.Tensor) else given
    if states[0].device.type == "cuda":
        return _called_with(torch.float16, call, args, kwargs)  # whatever dtype autocast has
    is_projected = states[0].shape[-1] != states[-1].shape[-1]
    if op is _aten.lstm.input and not is_projected:
        return _called_with(dtype, call, args, kwargs)
    results = _called_with(torch.float32, call, args, kwargs)
    dtypes = [torch.promote_types(state.dtype, dtype) for state in states]
    if is_projected or schema_of(op).name in _OF_ONE_PRODUCT:
        dtypes[0] = dtype
    return tuple(result.to(each) for result, each in zip(results, (dtypes[0], *dtypes), strict=True))


def _called_with(dtype: torch.dtype, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(*pytree.tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.dtype in _CAST else x, args), **kwargs)
