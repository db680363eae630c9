"""What is recorded for operators that write to each tensor of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory

_aten = torch.ops.aten
_IN_PLACE = [
    f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}"
    for name in dir(torch)
    if name.startswith("_foreach_") and name.endswith("_") and name != "_foreach_zero_"
    for overload in getattr(_aten, name).overloads()
]


@instead_of("aten::_foreach_zero_", why="torch has no such operator that returns tensors, to be recorded instead")
def zeros(self: Sequence[torch.Tensor]) -> None:
    for target in self:
        target.zero_()


@instead_of(
    *_IN_PLACE,
    gives_operator=True,
    why="what is recorded in its place computes all results before one is written, and tensors may share memory",
)
def one_after_another(op: OpOverload, self: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
    if len({*map(identity_of_memory, self)}) == len(self):
        return NotImplemented
    functional = getattr(_aten, op.overloadpacket.__name__.removesuffix("_"))
    for place, target in enumerate(self):
        given = [each[place : place + 1] if isinstance(each, (list, tuple)) else each for each in args]
        target.copy_(functional([target], *given, **kwargs)[0])
    return None
