"""Patches how parameters are made, and how tensors are given the values of others: `linear.weight.data = x`.

torch does both without calling an operator, so neither would be recorded; and `data = x` would replace the user's own
weights by fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.recording.lost_writes import own_tensor_written
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.patch import Attribute, FunctionCode, Patch
from onnx_parity.exporter.torch_inside.tensors import as_parameter
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here
from onnx_parity.exporter.torch_inside.transforms import is_wrapped

__all__ = ["PATCHES"]

asks_for_its_caller(__file__)


def _new_parameter(torchs: Callable[..., Any], cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    """A parameter that the program makes: a view of what it is made of, which torch takes for a parameter."""
    if data is None:
        data = torch.empty(0)
    if cls is not torch.nn.Parameter:
        return torchs(cls, data, requires_grad)
    return as_parameter(data.detach(), requires_grad)


def _with_data(torchs: Any) -> property:
    def assign(self: torch.Tensor, data: torch.Tensor) -> None:
        if not records_here():
            torchs.__set__(self, data)
            return
        recorder = recorder_here()
        if id(self) in recorder.buffers:
            self.copy_(data)  # A buffer keeps its memory, which is what is seen of it after the recording.
        elif recorder.knows(self) or is_wrapped(self):
            with torch.no_grad():
                self.set_(data)  # type: ignore[call-overload]
        elif recorder.give_data is None:
            raise own_tensor_written(recorder.origins.find())
        else:
            recorder.give_data(self, data)

    return property(torchs.__get__, assign, torchs.__delete__, torchs.__doc__)


PATCHES: tuple[Patch, ...] = (
    FunctionCode(torch.nn.Parameter, "__new__", _new_parameter),
    Attribute(torch.Tensor, "data", _with_data),
)
