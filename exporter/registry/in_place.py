"""Operators that write in place, recorded as the operator that does not, and a copy to the target.

torch's functionalization would record them likewise, but does not accept some of the targets, or takes long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["DYNAMIC", "DYNAMIC_HALVES", "FLOATS", "FLOATS_AND_DYNAMIC", "Targets", "copy_back"]

_aten = torch.ops.aten

_TAKES_LONG = (
    "torch 2.13's functionalization checks their shapes with kernels in Python, which takes up to a millisecond, and "
    "not with all sizes and dtypes"
)


class Targets(msgspec.Struct, frozen=True):
    """The tensors for which a write is not left to functionalization: any of these dtypes, or of dynamic size."""

    why: str
    floats: bool = False
    dynamic: bool = False
    dynamic_halves: bool = False

    def include(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the target, which is the first of an operator's tensors, is one of these."""
        dtype = tensors[0].dtype
        if self.floats and dtype.is_floating_point:
            return True
        if self.dynamic or (self.dynamic_halves and dtype in (torch.float16, torch.bfloat16)):
            return any_size_is_dynamic(tensors[:1])
        return False


FLOATS = Targets(_TAKES_LONG, floats=True)
FLOATS_AND_DYNAMIC = Targets(_TAKES_LONG, floats=True, dynamic=True)
DYNAMIC = Targets("torch 2.13's functionalization checks their shapes with tensors of plain sizes", dynamic=True)
DYNAMIC_HALVES = Targets(
    "torch 2.13's functionalization computes their shapes in float32 if the tensor is float16 or bfloat16, and cannot "
    "cast symbols for that",
    dynamic_halves=True,
)


def copy_back(*names: str, to: Targets) -> None:
    """Record all overloads of operators such as `abs_`, or one such as `div_.Tensor_mode`, as `abs`, and a copy."""
    for given in names:
        name, _, only = given.partition(".")
        overloads = [only] if only else getattr(_aten, name).overloads()
        ops = [f"aten::{name}" + ("" if overload == "default" else f".{overload}") for overload in overloads]
        instead_of(*ops, where=to.include, gives_operator=True, why=to.why)(_write_and_copy_back)


def _write_and_copy_back(op: OpOverload, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    functional = getattr(_aten, op.overloadpacket.__name__.removesuffix("_"))
    return target.copy_(functional(target, *args, **kwargs))
