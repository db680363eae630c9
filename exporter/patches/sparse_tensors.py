"""Patches the functions that make sparse tensors: torch's own have constant sizes, so a `Sparse` is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch

__all__ = ["PATCHES"]

asks_for_its_caller(__file__)


def _by_coordinates(
    torchs: Callable[..., Any], indices: Any, values: Any, size: Any = None, *, dtype: torch.dtype | None = None,
    device: Any = None, is_coalesced: bool | None = None, **_: Any,
) -> Any:  # fmt: skip
    # Few programs have sparse tensors.
    from onnx_parity.exporter.kinds.sparse import Sparse

    if size is None:
        raise refused_here(
            "the program makes a sparse tensor without a size, which is that of its greatest indices: give it a size"
        )
    places = torch.as_tensor(indices, device=device).to(torch.int64)
    return Sparse(places, torch.as_tensor(values, dtype=dtype, device=device), size, bool(is_coalesced))


def _to_sparse(torchs: Callable[..., Any], x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.kinds.sparse import from_dense

    is_usual = args in ((), (x.dim(),)) and (not kwargs or kwargs == {"layout": torch.sparse_coo})
    return from_dense(x) if is_usual and x.layout is torch.strided else torchs(x, *args, **kwargs)


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(torch, "sparse_coo_tensor", _by_coordinates),
    FunctionAttribute(torch.Tensor, "to_sparse", _to_sparse),
)
