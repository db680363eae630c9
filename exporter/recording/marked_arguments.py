"""Marked inputs of a recording: the objects that represent a `ListOf`, an `OrNone` or an `AnyNumber` when the program
is called.

A list whose tensors have the same shape is stacked by the first nodes of the model, and then handled like the lists of
scripts. An optional becomes a flag and a tensor, which is zeros if the optional is None. A number becomes a symbol, or
for scripts the tensor that holds it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph import list_primitives
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Holds, Size, Value
from onnx_parity.exporter.recording.leaves import Leaves
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.recording.results import TensorList, TensorOrNone
from onnx_parity.exporter.request.marked_inputs import AnyNumber, Held, ListOf

__all__ = ["MarkedInput"]


class MarkedInput:
    """A marked input: the graph's value, and the object that the program is called with."""

    def __init__(self, recorder: Recorder, held: Held, name: str, shape: Sequence[Size]) -> None:
        self.name = name
        self._recorder = recorder
        self._is_list = isinstance(held.mark, ListOf)
        self.is_number = isinstance(held.mark, AnyNumber)
        holds = Holds.LIST if self._is_list else Holds.TENSOR if self.is_number else Holds.OPTIONAL
        self._handle = recorder.stand_in(held.item.dtype, shape, held.item.device, holds)
        self.value: Value = recorder.value_of(self._handle)
        self.value.name = name
        recorder.reader.examples[self.value] = held.given
        #: The tensors that are passed to the program, and the value of each before it runs.
        self._given: list[tuple[torch.Tensor, Value]] = []

    @classmethod
    def of_list(
        cls, recorder: Recorder, held: Held, name: str, axes: Mapping[int, str], axis_names: dict[str, str]
    ) -> MarkedInput:
        """A marked list. Its dynamic axes have their own symbols, even if other inputs have axes of the same names."""
        symbols = recorder.fakes.symbols
        if symbols is None:
            raise Reconsider(Decision.SYMBOLS)
        shape: list[Size] = list(held.item.shape)
        for axis, axis_name in axes.items():
            size = shape[axis] = symbols.unknown_size(shape[axis])
            axis_names[str(size.node.expr)] = axis_name
        return cls(recorder, held, name, shape)

    def handed_out(self, known: Container[str]) -> Any:
        """The object that the program is called with. `known` are the symbols that can be read from other inputs."""
        handle, recorder = self._handle, self._recorder
        leaves = Leaves(recorder)
        if self.is_number:
            tensor = leaves.give(handle)
            return tensor if recorder.of_script else leaves.number(tensor)
        if self._is_list and any(not isinstance(size, int) for size in self.value.shape):
            return TensorList(leaves.give(handle), of_numbers=False, stacked=False)
        # The shape to use if the list has no items, or if the optional is None. Unknown sizes become 0.
        none: list[Size] = [
            size if isinstance(size, int) or str(size.node.expr) in known else 0 for size in self.value.shape
        ]
        if self._is_list:
            stack = recorder.stand_in(handle.dtype, [leaves.new_size(2), *handle.shape], handle.device)
            arguments = {"items": self.value, "none": none, "dtype": handle.dtype}
            recorder.add(list_primitives.STACKED, arguments, [stack])
            return TensorList(self._watched(leaves, stack), of_numbers=False, stacked=True)
        present = recorder.stand_in(torch.bool, ())
        tensor = recorder.stand_in(handle.dtype, handle.shape, handle.device)
        recorder.add(list_primitives.PRESENCE, {"given": self.value, "none": none}, [present, tensor])
        return TensorOrNone(leaves.give(present), self._watched(leaves, tensor))

    def _watched(self, leaves: Leaves, fake: Any) -> torch.Tensor:
        given: torch.Tensor = leaves.give(fake)
        self._given.append((given, self._recorder.value_of(fake)))
        return given

    def refuse_written(self) -> None:
        """Refuse writes in place to the input. Called after the program has run."""
        leaves = Leaves(self._recorder)
        if any(self._recorder.value_of(leaves.take(given)) is not before for given, before in self._given):
            what = "the items of the list" if self._is_list else "the tensor, which may be None,"
            raise CaptureError(
                f"the program writes in place to {what} {self.name!r} that it is given: write to a clone"
            )
