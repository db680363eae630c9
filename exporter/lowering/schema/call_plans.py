"""What an operator at an opset makes of inputs of some dtypes: worked out once, and the same for every later call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from onnx_parity.exporter.lowering.schema.compute_dtype import carrier, not_taken
from onnx_parity.exporter.lowering.schema.signatures import POINTWISE, Signature, signature

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Dtypes are None where only the call can tell: an input's that is a number, an output's that an attribute says."""

    signature: Signature
    #: What each input is to be computed in.
    inputs: tuple[torch.dtype | None, ...]
    #: What each output comes in.
    outputs: tuple[torch.dtype | None, ...]
    #: What is to be made of an output that comes in another dtype than the tensors that went in.
    narrowed: tuple[torch.dtype | None, ...]
    #: The outputs have the shape of the inputs, broadcast.
    is_pointwise: bool


@cache
def plan_of(op: str, opset: int, dtypes: tuple[torch.dtype | None, ...], outputs: int) -> Plan:
    """The plan for inputs of these dtypes, None for those that are no tensors. Raises `Unsupported`."""
    sig = signature(op, opset)
    bound = _bound(sig, dtypes)
    computed = {name: carrier(sig, name, dtype, opset) for name, dtype in bound.items()}
    names = [sig.output_type(position) for position in range(outputs)]
    made = tuple(computed.get(name) or sig.fixed(name) for name in names)
    for name, dtype in zip(names, made, strict=True):
        if dtype is not None and dtype not in sig.allowed[name]:
            raise not_taken(sig, name, dtype, opset)
    return Plan(
        signature=sig,
        inputs=tuple(_input(sig, position, dtype, computed) for position, dtype in enumerate(dtypes)),
        outputs=made,
        narrowed=tuple(bound[name] if name in bound and bound[name] is not computed[name] else None for name in names),
        is_pointwise=op in POINTWISE,
    )


def _bound(sig: Signature, dtypes: Sequence[torch.dtype | None]) -> dict[str, torch.dtype]:
    """Of each type constraint, the dtype that the tensors among the inputs give it."""
    bound: dict[str, torch.dtype] = {}
    for position, dtype in enumerate(dtypes):
        if dtype is not None:
            name = sig.input_type(position)
            first = bound.setdefault(name, dtype)
            if first is not dtype and not sig.heterogeneous:
                raise TypeError(
                    f"{sig.op} takes inputs of one dtype for {name}, and got {first} and {dtype}: cast one first"
                )
    return bound


def _input(
    sig: Signature, position: int, dtype: torch.dtype | None, computed: dict[str, torch.dtype]
) -> torch.dtype | None:
    if dtype is not None and sig.heterogeneous:
        return dtype
    name = sig.input_type(position)
    return computed.get(name) or (sig.fixed(name) if dtype is None else None)
