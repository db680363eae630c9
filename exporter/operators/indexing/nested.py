"""Nested tensors that are indexed."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Nested, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("narrow")
@Strided.rule("narrow")
def _narrow(func: Function, nt: Jagged | Strided, dim: int, start: Any, length: Any) -> Nested:
    return nt.apply(torch.narrow, nt.axis(dim, "narrow"), start, length)


@Jagged.rule("select")
def _select_jagged(func: Function, nt: Jagged, dim: int, index: int) -> Any:
    if dim % nt.ndim == 0:
        return nt.rows()[index]
    inner = nt.axis(dim, "select")
    return nt.alike(nt.values().select(inner, index), nt._ragged_idx - (inner < nt.inner))


@Strided.rule("select")
def _select_strided(func: Function, nt: Strided, dim: int, index: int) -> Any:
    return nt.parts[index] if dim % nt.ndim == 0 else nt.apply(torch.select, nt.axis(dim, "select"), index)


@Jagged.rule("getitem")
def _getitem_jagged(func: Function, nt: Jagged, items: Any) -> Any:
    given = items if isinstance(items, tuple) else (items,)
    if given and type(given[0]) is int:
        row = nt.rows()[given[0]]
        return row[given[1:]] if len(given) > 1 else row
    if any(item is not Ellipsis and type(item) not in (int, slice) for item in given):
        raise refused("an index that is a tensor, a list or None")
    if Ellipsis in given:
        at = given.index(Ellipsis)
        left = nt.ndim - (len(given) - 1)
        given = (*given[:at], *(slice(None),) * left, *given[at + 1 :])
    whole = slice(None)
    if given[0] != whole or (len(given) > nt._ragged_idx and given[nt._ragged_idx] != whole):
        raise refused("an index of the axis of its rows, or of the ragged one")
    dropped = sum(type(item) is int for item in given[1 : nt._ragged_idx])
    return nt.alike(nt.values()[given[1:]], nt._ragged_idx - dropped)


@Strided.rule("getitem")
def _getitem_strided(func: Function, nt: Strided, items: Any) -> torch.Tensor:
    first, *rest = items if isinstance(items, tuple) else (items,)
    if type(first) is not int:
        raise refused("an index of another kind than the number of a part")
    return nt.parts[first][tuple(rest)] if rest else nt.parts[first]


@Jagged.rule("masked_select")
def _masked_select(func: Function, nt: Jagged, mask: Any) -> Jagged:
    if nt.ndim > 2 or nt.lengths() is not None:
        raise refused("masked_select where it has more than two axes")
    chosen = nt._beside(mask, "masked_select")
    before = F.pad(chosen.cumsum(0), (1, 0))
    return Jagged(nt.values().masked_select(chosen), before[nt.offsets()], cache=nt._cache)
