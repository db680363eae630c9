"""Patches `chunk`, `split`, `unbind`, loops over tensors and `pad_sequence`, whose numbers of parts or lengths may be
dynamic, and `set_`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.leaves import is_number
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["PATCHES", "WITH_SYMBOLS"]

asks_for_its_caller(__file__)


def _chunked(x: torch.Tensor, chunks: int, dim: int) -> list[torch.Tensor]:
    return list(x.chunk(chunks, dim))


@functools.cache
def _script() -> Any:
    return torch.jit.script(_chunked)


def _chunk(torchs: Callable[..., Any], input: Any, chunks: Any, dim: int = 0) -> Any:
    """As many parts as in the example if the program goes over them, and else a list of the graph."""
    if not isinstance(chunks, torch.SymInt):
        return torchs(input, chunks, dim)
    if Decision.PARTS_OF_EXAMPLE not in recorder_here().decisions or not chunks.node.has_hint():
        return _script()(input, chunks, dim)
    number = chunks.node.hint
    if chunks > number or chunks < number:
        raise refused_here("the number of parts of chunk is another one than in the example")
    return torchs(input, number, dim)


def _iter(torchs: Callable[..., Any], self: torch.Tensor) -> Iterator[Any]:
    """The parts along the first axis, which a loop goes over as often as the model needs it to."""
    items = None
    if recorder_here().fakes.symbols is not None:
        from onnx_parity.exporter.sizes.looped import items_in

        items = items_in(self)
    parts: Iterator[Any] = torchs(self) if items is None else iter(items)
    return parts


def _unbind(torchs: Callable[..., Any], self: torch.Tensor, dim: int = 0) -> Any:
    """The parts along an axis, as a list of as many items as the model finds."""
    length = self.shape[dim] if self.dim() else 1
    if not isinstance(length, torch.SymInt) or not length.node.has_hint():
        return torchs(self, dim)
    from onnx_parity.exporter.recording.python_loops.grown_list import parts_of

    return parts_of(self.movedim(dim, 0))


def _split(torchs: Callable[..., Any], self: torch.Tensor, split_size: Any, dim: int = 0) -> Any:
    """Pieces, which are as many as the model finds. (`torch.split` calls this too.)"""
    length = self.shape[dim] if self.dim() else 1
    if isinstance(split_size, list) and getattr(split_size, "items_of_loop", None) is not None:
        return _split_by_list(self, split_size, dim)
    if type(split_size) is not int or split_size < 1 or not isinstance(length, torch.SymInt):
        return torchs(self, split_size, dim)
    has_hint = length.node.has_hint()
    if (split_size == 1 and not has_hint) or (has_hint and Decision.PARTS_OF_EXAMPLE in recorder_here().decisions):
        return torchs(self, split_size, dim)
    from onnx_parity.exporter.recording.python_loops.grown_list import parts_of, pieces_of

    if split_size == 1:
        return parts_of(self.movedim(dim, 0).unsqueeze(dim % self.dim() + 1))
    # torch's own function calls this one again where the program runs in a mode of functions.
    return pieces_of(self, split_size, dim, lambda: torch.ops.aten.split.Tensor(self, split_size, dim))


def _split_by_list(whole: torch.Tensor, sizes: Any, dim: int) -> Any:
    """Pieces of the sizes in a list whose length the model finds."""
    from onnx_parity.exporter.sizes.looped import Items, Range, applied

    lengths = sizes.as_tensor()
    begins = lengths.cumsum(0) - lengths

    def piece(place: Any) -> torch.Tensor:
        begin: Any = torch.select(begins, 0, place).item()
        length: Any = torch.select(lengths, 0, place).item()
        return torch.narrow(whole, dim, begin, length)

    pieces: Any = Items.as_list(applied(piece, Range(0, lengths.shape[0], 1)))
    pieces.is_tuple = True
    return pieces


def _times(torchs: Callable[..., Any], count: torch.SymInt, other: Any) -> Any:
    """A list or a tuple of so many numbers, or of as many None, in whose places the program puts tensors."""
    if type(other) not in (list, tuple) or not other or not all(each is None or is_number(each) for each in other):
        return torchs(count, other)
    from onnx_parity.exporter.recording.python_loops.grown_list import repeated

    return repeated(other, count)


def _pad_sequence(
    torchs: Callable[..., Any],
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Sequences padded to the longest, of which torch's own would ask which it is."""
    from onnx_parity.exporter.sizes.looped import Items, applied, items_in

    def length_of(sequence: torch.Tensor) -> Any:
        return sequence.shape[0]

    def padded(sequence: torch.Tensor) -> torch.Tensor:
        missing = longest - sequence.shape[0]
        own = (0, missing) if padding_side == "right" else (missing, 0)
        return torch.nn.functional.pad(sequence, (*(0, 0) * (sequence.ndim - 1), *own), value=padding_value)

    if isinstance(sequences, torch.Tensor) or padding_side not in ("left", "right"):
        return torchs(sequences, batch_first, padding_value, padding_side)
    items = items_in(sequences)
    if items is not None:
        longest = torch.tensor(Items.as_list(applied(length_of, items))).max().item()
        return torch.stack(Items.as_list(applied(padded, items)), 0 if batch_first else 1)
    sequences = [*sequences]
    if not any(isinstance(length_of(each), torch.SymInt) for each in sequences):
        return torchs(sequences, batch_first, padding_value, padding_side)
    longest = functools.reduce(torch.sym_max, map(length_of, sequences))
    return torch.stack([*map(padded, sequences)], 0 if batch_first else 1)


def _set(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Let functionalization replace the tensor. It can do so with views of inputs, but not with inputs."""
    if kwargs or len(args) != 1 or not isinstance(args[0], torch.Tensor):
        raise refused_here(
            "the program gives a tensor other memory with set_: a model can only take another whole tensor for it, "
            "x.set_(y)"
        )
    recorder = recorder_here()
    if id(self) in recorder.buffers:
        raise refused_here(
            "the program gives a buffer the memory of another tensor with set_: write to the buffer with copy_, or use "
            "the other tensor"
        )
    if Decision.VIEWS_OF_INPUTS not in recorder.decisions:
        raise Reconsider(Decision.VIEWS_OF_INPUTS)
    recorder.layouts_asked.relaid(self)
    return torchs(self, *args)


WITH_SYMBOLS: tuple[Patch, ...] = (
    FunctionAttribute(torch, "chunk", _chunk),
    FunctionAttribute(torch.Tensor, "chunk", _chunk),
    FunctionAttribute(torch.Tensor, "__iter__", _iter),
    FunctionAttribute(torch, "unbind", _unbind),
    FunctionAttribute(torch.Tensor, "unbind", _unbind),
    FunctionAttribute(torch.Tensor, "split", _split),
    FunctionAttribute(torch.SymInt, "__mul__", _times),
    FunctionAttribute(torch.SymInt, "__rmul__", _times),
    FunctionCode(torch.nn.utils.rnn, "pad_sequence", _pad_sequence),
)
PATCHES: tuple[Patch, ...] = (FunctionAttribute(torch.Tensor, "set_", _set),)
