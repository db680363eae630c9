"""The inputs of a recording: a fake tensor for each example, its dynamic axes as symbols, and a value of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.graph.graph import Input, Size, Value
from onnx_parity.exporter.capture.record.marked_arguments import MarkedInput
from onnx_parity.exporter.capture.record.recorder import Recorder
from onnx_parity.exporter.request.dynamic_axes import Axes, Named
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, is_input

__all__ = ["RecordedInputs"]


class RecordedInputs:
    """The tensors and the marked arguments of a program, as fake tensors and as values of the graph."""

    def __init__(
        self, recorder: Recorder, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str], axes: Axes
    ) -> None:
        self._recorder = recorder
        self._axes = axes
        self._names = names
        #: The inputs of the graph, in the order of the flattened arguments.
        self.inputs: list[Input] = []
        #: The fake tensors of the inputs that are tensors, in their order.
        self.fakes: list[FakeTensor] = []
        #: The name that the user gave to the axis of each symbol.
        self.axis_names: dict[str, str] = {}
        #: For each symbol, an input and the axis of it that has this size.
        self.size_sources: dict[str, tuple[Value, int]] = {}
        self._sizes: dict[str, torch.SymInt] = {}
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        #: The marked inputs (`ListOf`, `OrNone`) by their position among the leaves.
        self._marked: dict[int, MarkedInput] = {}
        #: The positions of the tensors among the leaves, and the number of each among the inputs.
        self._tensors: list[tuple[int, int]] = []
        positions = [position for position, leaf in enumerate(self._leaves) if is_input(leaf)]
        for number, position in enumerate(positions):
            leaf = self._leaves[position]
            if isinstance(leaf, Held):
                marked = self._marked[position] = self._marked_input(number, leaf)
                self.inputs.append(Input(marked.value, names[number], leaf.item))
            else:
                self._tensors.append((position, number))
                self._add_tensor(number, leaf)

    def _add_tensor(self, number: int, example: torch.Tensor) -> None:
        recorder, name, dynamic = self._recorder, self._names[number], self._axes.inputs.get(number, {})
        fake = _fake_like(example, self._shape(example, dynamic) if dynamic else None, recorder.fakes)
        value = recorder.input(fake, name, example)
        for axis, axis_name in dynamic.items():
            self.size_sources.setdefault(str(self._sizes[axis_name].node.expr), (value, axis))
        self.inputs.append(Input(value, name, example))
        self.fakes.append(recorder.writable(fake))

    def _marked_input(self, number: int, leaf: Held) -> MarkedInput:
        name, dynamic = self._names[number], self._axes.inputs.get(number, {})
        if isinstance(leaf.mark, ListOf):
            return MarkedInput.of_list(self._recorder, leaf, name, dynamic, self.axis_names)
        return MarkedInput(self._recorder, leaf, name, self._shape(leaf.item, dynamic))

    def _shape(self, example: torch.Tensor, dynamic: Named) -> list[Size]:
        """The shape of an example, with a symbol for each dynamic axis; axes of one name share one symbol."""
        shape: list[Size] = list(example.shape)
        for axis, name in dynamic.items():
            if name not in self._sizes:
                symbols = self._recorder.fakes.symbols
                assert symbols is not None
                size = symbols.new_size(name, example.shape[axis], self._axes.ranges.get(name))
                self._sizes[name] = size
                self.axis_names[str(size.node.expr)] = name
            shape[axis] = self._sizes[name]
        return shape

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to call the program with: these tensors in the place of the examples."""
        filled = list(self._leaves)
        for (position, _), tensor in zip(self._tensors, tensors, strict=True):
            filled[position] = tensor
        for position, marked in self._marked.items():
            filled[position] = marked.handed_out(self.size_sources)
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(filled, self._spec)
        return arguments

    def refuse_written(self) -> None:
        """Refuse writes to marked inputs. Called when the program has run."""
        for marked in self._marked.values():
            marked.refuse_written()

    def release(self) -> None:
        """Release the fake tensors."""
        self.fakes.clear()
        self._marked.clear()

    def tensor_inputs(self) -> Iterator[tuple[int, FakeTensor]]:
        """The inputs that are tensors: the number of each among the inputs, and its fake."""
        return zip((number for _, number in self._tensors), self.fakes, strict=True)


def _fake_like(example: torch.Tensor, shape: Sequence[Size] | None, fakes: FakeTensorMode) -> FakeTensor:
    # A tensor on the device "meta" has no data yet. It is treated as a tensor on the CPU.
    device = torch.device("cpu") if example.is_meta else example.device
    if shape is None:
        meta = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device="meta")
        return FakeTensor(fakes, meta, device)
    with fakes:
        fake = torch.empty(shape, dtype=example.dtype, device=device)
    assert isinstance(fake, FakeTensor)
    return fake
