"""Tensors that are computed when they are written, so that transformed weights need no memory before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import msgspec
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
        #: Reads the rows between two numbers from the file of a checkpoint, where the weight is on the meta device.
        self.stored: Callable[[int | None, int | None], torch.Tensor] | None = None

    @property
    def raw(self) -> torch.Tensor:  # type: ignore[override]  # a property in onnx_ir too, and typed as an attribute
        return self._current

    def hold(self, tensor: torch.Tensor) -> None:
        self._current = tensor.detach()

    def rows(self, start: int | None = None, end: int | None = None) -> torch.Tensor:
        """The rows between two numbers, or all of it, on the CPU (or the meta device)."""
        current = self._current
        if current.is_meta and self.stored is not None:
            return self.stored(start, end)
        rows = current if start is end is None else current[start:end]
        return rows if rows.is_meta else rows.cpu()


class _Definition(msgspec.Struct, frozen=True, eq=False):
    """What a lazy tensor is computed by, and from which tensors."""

    compute: Callable[..., torch.Tensor]
    sources: tuple[ir.TensorProtocol, ...]


def _computed(last: _Definition) -> torch.Tensor:
    """The value of a lazy tensor.

    Each value before it is computed once, although several may read it, and kept until the last of them has. There is
    no recursion: a program may compute a weight in more steps than Python has room for on its stack.
    """
    order: list[_Definition] = []
    readings: dict[_Definition, int] = {}
    waiting = [(last, False)]
    while waiting:
        definition, is_ready = waiting.pop()
        if is_ready:
            order.append(definition)
            continue
        readings[definition] = readings.get(definition, 0) + 1
        if readings[definition] == 1:
            waiting.append((definition, True))
            waiting += [(each.definition, False) for each in definition.sources if type(each) is LazyTorchTensor]
    values: dict[_Definition, torch.Tensor] = {}

    def value_of(source: ir.TensorProtocol) -> torch.Tensor:
        if type(source) is not LazyTorchTensor:
            return torch_of(source)
        readings[source.definition] -= 1
        is_last = not readings[source.definition]
        return values.pop(source.definition) if is_last else values[source.definition]

    with literals_on_the_cpu(), torch.no_grad():
        for definition in order:
            values[definition] = definition.compute(*map(value_of, definition.sources))
    return values[last]


class LazyTorchTensor(ir.LazyTensor):
    """A tensor of known dtype and shape, which torch computes at each access, from the values of its sources.

    With `parts`, its bytes are the concatenated bytes of other tensors, which are written without a copy. With `rows`,
    ranges of rows can be computed separately, so that only one block of them is in memory at a time. Of integers of
    four bits, which torch does not have, the bytes are computed: `stored_as` is their dtype.
    """

    def __init__(
        self,
        compute: Callable[..., torch.Tensor],
        dtype: torch.dtype,
        shape: tuple[int, ...],
        sources: tuple[ir.TensorProtocol, ...] = (),
        parts: tuple[ir.TensorProtocol, ...] = (),
        rows: Callable[[int, int], torch.Tensor] | None = None,
        stored_as: ir.DataType | None = None,
    ) -> None:
        definition = _Definition(compute, sources)

        # It does not refer to this tensor, which would then keep weights in memory until garbage is collected.
        def known() -> ir.TensorProtocol:
            computed = _computed(definition)
            if stored_as is None:
                return TorchTensor(computed)
            return ir.PackedTensor(computed.numpy(), stored_as, shape=ir.Shape(shape))

        super().__init__(known, stored_as or TO_ONNX[dtype], ir.Shape(shape))
        self.definition = definition
        #: Whether it depends on a parameter.
        self.is_learned = False
        self.parts = parts
        self._rows = rows

    def blocks(self) -> Iterator[torch.Tensor]:
        """The tensor in blocks of rows, each of at most `BLOCK` bytes unless one row is larger."""
        length = self.shape.numpy()[0] if self._rows is not None else 0
        if self._rows is None or not length:
            yield _computed(self.definition)
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
        return _computed(tensor.definition)
    if type(tensor) is WeightTensor:
        return tensor.rows()
    if isinstance(tensor, TorchTensor):
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
    waiting = [tensor]
    while waiting:
        each = waiting.pop()
        if type(each) is LazyTorchTensor:
            waiting += reversed(each.parts)
            for block in () if each.parts else each.blocks():
                yield from _bytes(block, each.name)
        elif type(each) is WeightTensor or isinstance(each, TorchTensor):
            yield from _bytes(torch_of(each), each.name)
        else:
            yield each.tobytes()


def _bytes(tensor: torch.Tensor, name: str | None) -> Iterator[memoryview]:
    if tensor.is_meta:
        raise WriteError(
            f"the weight {name!r} has no data, because it is fake or on the meta device: export without a "
            "file, and call program.apply_weights(model.state_dict()) before program.save(...)"
        )
    plain = tensor.detach().cpu().contiguous()
    if plain.numel():
        # A tensor of one element counts as contiguous whatever its stride is, which a view as bytes does not take.
        yield plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().data
