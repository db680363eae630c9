"""Tensors that are given other sizes, with `resize_`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.fakes.fake_mode import expressions
from onnx_parity.exporter.recording.fakes.metadata import Metadata
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of
from onnx_parity.exporter.torch_inside.tensors import shares_memory

__all__ = ["resized"]


_WHY = "torch's own takes plain sizes only, also where an operator gives sizes to the tensor that is its out="


@instead_of("aten::resize_", why=_WHY)
def resize_(self: torch.Tensor, size: Sequence[Any], *, memory_format: torch.memory_format | None = None) -> Any:
    if not any(isinstance(each, torch.SymInt) for each in (*size, *self.shape)):
        return NotImplemented
    if shares_memory(self):
        raise refused_here(
            "the program gives other sizes to a tensor in place, by resize_, resize_as_ or out=, and another tensor "
            "has its memory too: take a slice and reshape it, or resize a clone"
        )
    return self.set_(resized(self, size))


@instead_of("aten::resize_as_", why=_WHY)
def resize_as_(
    self: torch.Tensor, the_template: torch.Tensor, *, memory_format: torch.memory_format | None = None
) -> Any:
    return resize_(self, the_template.shape)


@decomposition_of("aten::resize")
def resize(self: torch.Tensor, size: Sequence[Any], *, memory_format: torch.memory_format | None = None) -> Any:
    """Functionalization makes a view of a tensor that becomes smaller, and leaves this result out."""
    return self.new_zeros(size) if math.prod(size) <= self.numel() else resized(self, size)


@decomposition_of("aten::resize_as")
def resized_as(
    self: torch.Tensor, the_template: torch.Tensor, *, memory_format: torch.memory_format | None = None
) -> Any:
    return resized(self, the_template.shape)


def resized(self: torch.Tensor, size: Sequence[Any]) -> Any:
    """The elements of the tensor, and zeros after them, where torch leaves any numbers."""
    if not Metadata(self.dtype, expressions(self.shape), expressions(self.stride()), self.device).is_contiguous:
        raise refused_here(
            "the program gives other sizes to a tensor that is not contiguous, by resize_ or resize_as_, which takes "
            "its elements in the order in which they lie in memory: resize a copy, "
            "clone(memory_format=torch.contiguous_format)"
        )
    count = math.prod(size)
    missing: Any = torch.sym_max(count - self.numel(), 0)
    return torch.cat([self.flatten(), self.new_zeros(missing)])[:count].reshape(size)
