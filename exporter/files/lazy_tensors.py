"""Tensors that are computed when they are written, so that transformed weights need no memory before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import WriteError
from onnx_parity.exporter.torch_inside.modes import number_of_function_modes

__all__ = ["LazyTorchTensor", "WeightTensor", "chunks_of", "literals_on_the_cpu", "one_thread", "torch_of"]

#: The number of bytes of a transformed weight that are in memory at a time.
BLOCK = 1 << 18


class WeightTensor(TorchTensor):
    """A weight of the program. Tensors that are computed from it read its current value, so it can be replaced.

    One that `is_learned` is a parameter, and no input of the model. One that `is_literal` is a constant of the program,
    which nothing replaces.
    """

    def __init__(self, tensor: torch.Tensor, *, is_learned: bool = False, is_literal: bool = False) -> None:
        super().__init__(tensor)
        self._current = tensor
        self.is_learned = is_learned
        self.is_literal = is_literal
        #: Whether the model is right only for numbers that are finite and far from the largest of the dtype.
        self.stays_finite = False

    @property
    def raw(self) -> torch.Tensor:  # type: ignore[override]  # a property in onnx_ir too, and typed as an attribute
        return self._current

    def hold(self, tensor: torch.Tensor) -> None:
        self._current = tensor.detach()


class LazyTorchTensor(ir.LazyTensor):
    """A tensor of known dtype and shape, which torch computes at each access.

    With `parts`, its bytes are the concatenated bytes of other tensors, which are written without a copy. With `rows`,
    ranges of rows can be computed separately, so that only one block of them is in memory at a time.
    """

    def __init__(
        self,
        compute: Callable[[], torch.Tensor],
        dtype: torch.dtype,
        shape: tuple[int, ...],
        parts: tuple[ir.TensorProtocol, ...] = (),
        rows: Callable[[int, int], torch.Tensor] | None = None,
    ) -> None:
        def on_the_cpu() -> torch.Tensor:
            with literals_on_the_cpu():
                return compute()

        # It does not refer to this tensor, which would then keep weights in memory until garbage is collected.
        super().__init__(lambda: TorchTensor(on_the_cpu()), TO_ONNX[dtype], ir.Shape(shape))
        self.compute = on_the_cpu
        #: Whether it depends on a parameter.
        self.is_learned = False
        self.parts = parts
        self._rows = rows

    def blocks(self) -> Iterator[torch.Tensor]:
        """The tensor in blocks of rows, each of at most `BLOCK` bytes unless one row is larger."""
        length = self.shape.numpy()[0] if self._rows is not None else 0
        if self._rows is None or not length:
            yield self.compute()
            return
        step = max(1, BLOCK * length // max(self.nbytes, 1))
        for start in range(0, length, step):
            with literals_on_the_cpu():
                block = self._rows(start, min(start + step, length))
            yield block


def literals_on_the_cpu() -> AbstractContextManager[object]:
    """A context in which tensors are created on the CPU, even if the caller has used torch.set_default_device.

    A default device is a mode on torch's function stack, so nothing has to be overridden if that stack is empty.
    """
    return torch.device("cpu") if number_of_function_modes() else nullcontext()


def torch_of(tensor: ir.TensorProtocol) -> torch.Tensor:
    """The torch tensor of an initializer on the CPU (or the meta device), computed now if it is lazy."""
    # isinstance takes 10 us for onnx_ir's protocols and the classes that implement them, which was a twelfth of a small
    # export.
    if type(tensor) is LazyTorchTensor:
        return tensor.compute()
    if type(tensor) is WeightTensor or isinstance(tensor, TorchTensor):
        raw: torch.Tensor = tensor.raw
        return raw if raw.is_meta else raw.cpu()
    return torch.from_numpy(tensor.numpy().copy())


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which torch uses one thread, because transforming weights is limited by memory and not arithmetic.

    Beside another busy process, saving ResNet-50 took 0.24 to 1.1 s of processor time with a second thread, and takes
    0.05 s with one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chunks_of(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    """A tensor's little-endian bytes, without a copy if it is contiguous and on the CPU."""
    if type(tensor) is LazyTorchTensor:
        for part in tensor.parts:
            yield from chunks_of(part)
        for block in () if tensor.parts else tensor.blocks():
            yield from _bytes(block, tensor.name)
    elif type(tensor) is WeightTensor or isinstance(tensor, TorchTensor):
        yield from _bytes(torch_of(tensor), tensor.name)
    else:
        yield tensor.tobytes()


def _bytes(tensor: torch.Tensor, name: str | None) -> Iterator[memoryview]:
    if tensor.is_meta:
        raise WriteError(
            f"the weight {name!r} has no data, because it is fake or on the meta device: set the weights with "
            "program.apply_weights(model.state_dict())"
        )
    plain = tensor.detach().cpu().contiguous()
    if plain.numel():
        # A tensor of one element counts as contiguous whatever its stride is, which a view as bytes does not take.
        yield plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().data
