"""Tensors that are computed when they are written, so that folding weights needs no memory until then."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from exporter.lowering.dtypes import TO_ONNX

__all__ = ["LazyTorchTensor", "bytes_of", "torch_of"]


class LazyTorchTensor(ir.LazyTensor):
    """A tensor of known dtype and shape, computed by torch each time it is asked for."""

    def __init__(self, compute: Callable[[], torch.Tensor], dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        super().__init__(lambda: TorchTensor(compute()), TO_ONNX[dtype], ir.Shape(shape))
        self.compute = compute


def torch_of(tensor: ir.TensorProtocol) -> torch.Tensor:
    """The torch tensor behind an initializer, computed now if it is lazy."""
    if isinstance(tensor, LazyTorchTensor):
        return tensor.compute()
    if isinstance(tensor, TorchTensor):
        raw: torch.Tensor = tensor.raw
        return raw
    return torch.from_numpy(tensor.numpy().copy())


def bytes_of(tensor: ir.TensorProtocol) -> bytes | memoryview:
    """A tensor's little-endian bytes, without a copy where its memory is contiguous and on the CPU."""
    if isinstance(tensor, (LazyTorchTensor, TorchTensor)):
        plain = torch_of(tensor).detach().cpu().contiguous()
        if plain.numel() == 0:
            return b""
        return memoryview(plain.view(-1).view(torch.uint8).numpy())
    return tensor.tobytes()
