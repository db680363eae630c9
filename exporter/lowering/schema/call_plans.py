"""The dtypes of a call of an ONNX operator: those of its inputs and outputs, and the casts around it. Cached."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
import torch

from onnx_parity.exporter.lowering.schema.compute_dtype import compute_dtype, not_taken
from onnx_parity.exporter.lowering.schema.signatures import POINTWISE, Signature, signature

__all__ = ["CallPlan", "call_plan"]


class CallPlan(msgspec.Struct, frozen=True):
    """The dtypes for an operator at an opset and the dtypes of its inputs. None if they depend on the call itself."""

    signature: Signature
    #: The dtype to which each input is cast; None for a number whose dtype no tensor determines.
    inputs: tuple[torch.dtype | None, ...]
    #: The dtype of each output; None if an attribute determines it.
    outputs: tuple[torch.dtype | None, ...]
    #: The dtype to which each output is cast, if it is computed in a wider dtype than that of the tensors.
    narrowed: tuple[torch.dtype | None, ...]
    #: Whether the outputs have the broadcast shape of the inputs.
    is_pointwise: bool


@cache
def call_plan(op: str, opset: int, dtypes: tuple[torch.dtype | None, ...], outputs: int) -> CallPlan:
    """The plan for inputs of these dtypes, with None for numbers. Raises `Unsupported`."""
    sig = signature(op, opset)
    bound = _bound(sig, dtypes)
    computed = {name: compute_dtype(sig, name, dtype, opset) for name, dtype in bound.items()}
    names = [sig.output_type(position) for position in range(outputs)]
    made = tuple(computed.get(name) or sig.fixed(name) for name in names)
    for name, dtype in zip(names, made, strict=True):
        if dtype is not None and dtype not in sig.allowed[name]:
            raise not_taken(sig, name, dtype, opset)
    return CallPlan(
        signature=sig,
        inputs=tuple(_input(sig, position, dtype, computed) for position, dtype in enumerate(dtypes)),
        outputs=made,
        narrowed=tuple(bound[name] if name in bound and bound[name] is not computed[name] else None for name in names),
        is_pointwise=op in POINTWISE,
    )


def _bound(sig: Signature, dtypes: Sequence[torch.dtype | None]) -> dict[str, torch.dtype]:
    """The dtype of each type constraint, which the tensors among the inputs determine."""
    bound: dict[str, torch.dtype] = {}
    for position, dtype in enumerate(dtypes):
        if dtype is not None:
            name = sig.input_type(position)
            first = bound.setdefault(name, dtype)
            if first is not dtype and not sig.heterogeneous:
                raise TypeError(
                    f"{sig.op} takes inputs of one dtype for {name}, but got {first} and {dtype}: cast one of them"
                )
    return bound


def _input(
    sig: Signature, position: int, dtype: torch.dtype | None, computed: dict[str, torch.dtype]
) -> torch.dtype | None:
    if dtype is not None and sig.heterogeneous:
        return dtype
    name = sig.input_type(position)
    return computed.get(name) or (sig.fixed(name) if dtype is None else None)
