"""Tensors that are computed when they are written, so that reworking weights needs no memory until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import WriteError

__all__ = ["LazyTorchTensor", "WeightTensor", "chunks_of", "one_thread", "torch_of"]

#: Bytes of a reworked weight that are held at a time.
BLOCK = 1 << 18


class WeightTensor(TorchTensor):
    """A weight of the program. What is made of it asks for its value each time, so that another may be put in place."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor)
        self._held = tensor

    @property
    def raw(self) -> torch.Tensor:  # type: ignore[override]  # onnx_ir's is one in truth, and typed as an attribute
        return self._held

    def hold(self, tensor: torch.Tensor) -> None:
        self._held = tensor.detach()


class LazyTorchTensor(ir.LazyTensor):
    """A tensor of known dtype and shape, computed by torch each time it is asked for.

    With `parts`, its bytes are those of other tensors one after the other, and are written without being joined first.
    With `rows`, a stretch of the first axis can be computed by itself, and no more than a block is ever held.
    """

    def __init__(
        self,
        compute: Callable[[], torch.Tensor],
        dtype: torch.dtype,
        shape: tuple[int, ...],
        parts: tuple[ir.TensorProtocol, ...] = (),
        rows: Callable[[int, int], torch.Tensor] | None = None,
    ) -> None:
        super().__init__(lambda: TorchTensor(compute()), TO_ONNX[dtype], ir.Shape(shape))
        self.compute = compute
        self.parts = parts
        self._rows = rows

    def blocks(self) -> Iterator[torch.Tensor]:
        """The tensor in stretches of its first axis, each of at most `BLOCK` bytes where a row is not larger."""
        length = self.shape.numpy()[0] if self._rows is not None else 0
        if self._rows is None or not length:
            yield self.compute()
            return
        step = max(1, BLOCK * length // max(self.nbytes, 1))
        for start in range(0, length, step):
            yield self._rows(start, min(start + step, length))


def torch_of(tensor: ir.TensorProtocol) -> torch.Tensor:
    """The torch tensor behind an initializer, computed now if it is lazy; in the memory of the CPU, like all others."""
    # Not isinstance, which for onnx_ir's protocols takes 10 us to say no: that was a twelfth of a small export.
    if type(tensor) is LazyTorchTensor:
        return tensor.compute()
    if isinstance(tensor, TorchTensor):
        raw: torch.Tensor = tensor.raw
        return raw if raw.is_meta else raw.cpu()
    return torch.from_numpy(tensor.numpy().copy())


@contextmanager
def one_thread() -> Iterator[None]:
    """Reworking weights waits for memory, not for arithmetic: beside another busy process, a second thread made saving
    ResNet-50 take 0.24 to 1.1 s of processor time, and one takes 0.05 s."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chunks_of(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    """A tensor's little-endian bytes, without a copy where they lie contiguous in the CPU's memory."""
    if type(tensor) is LazyTorchTensor:
        for part in tensor.parts:
            yield from chunks_of(part)
        for block in () if tensor.parts else tensor.blocks():
            yield from _bytes(block, tensor.name)
    elif isinstance(tensor, TorchTensor):
        yield from _bytes(torch_of(tensor), tensor.name)
    else:
        yield tensor.tobytes()


def _bytes(tensor: torch.Tensor, name: str | None) -> Iterator[memoryview]:
    if tensor.is_meta:
        raise WriteError(
            f"the weight {name!r} has no data, being fake or on the meta device: supply the weights, "
            "program.apply_weights(model.state_dict())"
        )
    plain = tensor.detach().cpu().contiguous()
    if plain.numel():
        yield plain.view(-1).view(torch.uint8).numpy().data
