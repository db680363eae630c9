"""`diagonal_copy`, `view_copy` and similar operators, recorded as views, since values in the graph share no memory."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.replace.registry import decomposition_of

_aten = torch.ops.aten

_VIEWS: dict[OpOverload, OpOverload] = {
    _aten.alias_copy.default: _aten.alias.default,
    _aten.detach_copy.default: _aten.detach.default,
    _aten.diagonal_copy.default: _aten.diagonal.default,
    _aten.expand_copy.default: _aten.expand.default,
    _aten.narrow_copy.default: _aten.narrow.default,
    _aten.permute_copy.default: _aten.permute.default,
    _aten._reshape_alias_copy.default: _aten.reshape.default,
    _aten.select_copy.int: _aten.select.int,
    _aten.slice_copy.Tensor: _aten.slice.Tensor,
    _aten.split_copy.Tensor: _aten.split.Tensor,
    _aten.split_with_sizes_copy.default: _aten.split_with_sizes.default,
    _aten.squeeze_copy.default: _aten.squeeze.default,
    _aten.squeeze_copy.dim: _aten.squeeze.dim,
    _aten.squeeze_copy.dims: _aten.squeeze.dims,
    _aten.t_copy.default: _aten.t.default,
    _aten.transpose_copy.int: _aten.transpose.int,
    _aten.unbind_copy.int: _aten.unbind.int,
    _aten.unfold_copy.default: _aten.unfold.default,
    _aten.unsqueeze_copy.default: _aten.unsqueeze.default,
    _aten.view_copy.default: _aten.reshape.default,
}

for _copy, _view in _VIEWS.items():
    decomposition_of(
        _copy, why="torch 2.13's decomposition reads storage offsets, which tensors with dynamic sizes do not have"
    )(_view)
