"""Patches `chunk`, which returns a list of unknown length where it is given a dynamic number, and `set_`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from onnx_parity.exporter.capture.graph.origin import refused_here
from onnx_parity.exporter.capture.patches.patch import FunctionAttribute, Patch

__all__ = ["PATCHES"]


def _chunked(x: torch.Tensor, chunks: int, dim: int) -> list[torch.Tensor]:
    return list(x.chunk(chunks, dim))


@cache
def _script() -> Any:
    return torch.jit.script(_chunked)


def _chunk(torchs: Callable[..., Any], input: Any, chunks: Any, dim: int = 0) -> Any:
    return _script()(input, chunks, dim) if isinstance(chunks, torch.SymInt) else torchs(input, chunks, dim)


def _set(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    raise refused_here(
        "the program gives a tensor the memory of another with set_, which only scripts can do in a model: use the "
        "other tensor instead, or export torch.jit.script(model)"
    )


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(lambda: torch, "chunk", _chunk),
    FunctionAttribute(lambda: torch.Tensor, "chunk", _chunk),
    FunctionAttribute(lambda: torch.Tensor, "set_", _set),
)
