"""Patches methods that read a tensor's memory, or ask where it lies and what shares it.

Fake tensors have none: torch's methods would read arbitrary bytes, and answer for tensors of the recording.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.dispatch.functional import unwrapped
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.recording.leaves import is_marked_number
from onnx_parity.exporter.torch_inside.frames import (
    asks_for_its_caller,
    current_frame,
    nearest_user_place,
    runs_users_code,
    who_asks,
)
from onnx_parity.exporter.torch_inside.loops.said_texts import is_only_said
from onnx_parity.exporter.torch_inside.patch import Attribute, FunctionAttribute, FunctionCode, Patch
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = ["PATCHES"]

asks_for_its_caller(__file__)


def _read(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    read = recorder_here().read_out
    parts = [read(part) for part in ((self.real, self.imag) if self.is_complex() else (self,))]
    with outside_of_recording():
        value = torch.complex(*parts) if self.is_complex() else parts[0]
        return torchs(value.detach(), *args, **kwargs)


def _to_list(torchs: Callable[..., Any], self: torch.Tensor) -> Any:
    """The numbers of a tensor as `item` returns them: as symbols if they depend on an input."""
    if self.ndim == 1 and not self.is_floating_point() and self.dtype is not torch.bool and _is_of_dynamic_length(self):
        from onnx_parity.exporter.recording.python_loops.grown_list import numbers_in

        return numbers_in(self)
    if self.ndim == 1 and _are_counted(self):
        return [self.select(0, place).item() for place in range(_count_in_example(self.shape[0]))]
    if self.ndim == 0 or not recorder_here().numbers_stay_symbolic(self):
        return _read(torchs, self)
    return [part.item() if self.ndim == 1 else part.tolist() for part in self.unbind(0)]


def _are_counted(numbers: torch.Tensor) -> bool:
    """Whether a list of numbers, of which there are as many as values say, has as many as in the example. It should be
    one of the model rather."""
    recorder, count = recorder_here(), numbers.shape[0]
    if not isinstance(count, torch.SymInt) or count.node.has_hint() or numbers.dtype is torch.bool:
        return False
    if not recorder.reader.stays_symbolic(recorder.value_of(unwrapped(numbers))):
        return False
    if not numbers.is_floating_point() and Decision.COUNTS_OF_EXAMPLE not in recorder.decisions:
        recorder.reader.refusal = Reconsider(Decision.LISTS_OF_NUMBERS)
        raise recorder.reader.refusal
    return True


def _count_in_example(count: Any) -> int:
    """How many numbers there are that are made a list, which depends on values, as of `torch.bincount(x, minlength=8)`.
    That there are as many as in the example is all that is assumed of them."""
    reads = recorder_here().reader.reads
    before = len(reads)
    read = recorder_here().read_out(torch.scalar_tensor(count, dtype=torch.int64))
    for each in reads[before:]:
        each.spelled = f"len({each.spelled})" if each.spelled else ""
    with outside_of_recording():
        return int(read)


def _is_of_dynamic_length(tensor: torch.Tensor) -> bool:
    """Whether a tensor has as many numbers as a dynamic size says, and a list of them is to be one of the model."""
    return Decision.LISTS_OF_NUMBERS in recorder_here().decisions and isinstance(tensor.shape[0], torch.SymInt)


def _is_nonzero(torchs: Callable[..., Any], self: Any) -> Any:
    """Whether a number is not zero, as a truth value that is computed: other numbers may have the same."""
    is_tensor = isinstance(self, torch.Tensor)
    if is_tensor and _are_looped() and (stays := _stays_in_loop(self)) is not None:
        return stays
    if is_tensor and self.dtype is not torch.bool and not self.is_quantized:
        self = self != 0
    elif is_tensor and isinstance(self.storage_offset(), torch.SymInt):
        self = self.clone()  # torch asks for the number of elements, which it takes to be symbolic too.
    return torchs(self)


def _are_looped() -> bool:
    """Whether loops that end by values are to be loops of the model."""
    return Decision.LOOPS_BY_VALUES in recorder_here().decisions


def _are_followed() -> bool:
    """Whether the model is to decide by values what the program does."""
    return _are_looped() or bool(recorder_here().reader.joined_at)


def _stays_in_loop(asked: torch.Tensor, *, is_returned: bool = False) -> bool | None:
    """The answer to a value by which the program may leave a loop that becomes one of the model; None for others. The
    function that asks may return it to the program, which then tests it."""
    symbols, (frame, _) = recorder_here().fakes.symbols, who_asks(current_frame())
    return None if symbols is None or not runs_users_code(frame) else symbols.stays_in_loop(frame, asked, is_returned)


def _item(torchs: Callable[..., Any], self: torch.Tensor) -> Any:
    """The number in a tensor: a truth value may be one by which the program leaves a loop."""
    is_flag = self.dtype is torch.bool and _are_looped()
    return torchs(self) if not is_flag or (stays := _stays_in_loop(self, is_returned=True)) is None else stays


def _are_close(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`torch.allclose`, as a truth value that is computed where the program may leave a loop by it."""
    return torch.isclose(*args, **kwargs).all().item() if _are_followed() else torchs(*args, **kwargs)


def _are_equal(torchs: Callable[..., Any], one: torch.Tensor, other: torch.Tensor) -> Any:
    """`torch.equal`, in the same way where the sizes are surely equal."""
    is_followed = _are_followed() and one is not other and one.ndim == other.ndim
    is_computed = is_followed and all(map(same_size, one.shape, other.shape))
    return (one == other).all().item() if is_computed else torchs(one, other)


def _text(torchs: Callable[..., Any], self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
    """The text of a tensor, which has no values in it here."""
    text = str(torchs(self, *args, **kwargs))
    place = nearest_user_place(current_frame())
    if not _is_recorded(self) or (place is not None and is_only_said(place.frame)):
        return text
    return recorder_here().reader.text_of(text)


def _from_dlpack(torchs: Callable[..., Any], tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares the memory of another one, which need not leave the recording for it."""
    if not isinstance(tensor, torch.Tensor):
        return torchs(tensor, device=device, copy=copy)
    shared = tensor.detach()
    shared = shared if device is None else shared.to(device)
    return shared.clone() if copy else shared


def _copy(pythons: Callable[..., Any], value: Any) -> Any:
    """`copy.copy`: a tensor in the memory of another."""
    return torch.ops.aten.alias.default(value) if isinstance(value, torch.Tensor) else pythons(value)


def _deep_copy(torchs: Callable[..., Any], self: torch.Tensor, memo: dict[Any, Any]) -> Any:
    """`copy.deepcopy`: tensors that share memory have copies that do, of which one is enough here."""
    if not records_here() or id(self) in memo:
        return torchs(self, memo)
    if memo.setdefault(("memory", identity_of_memory(self)), self) is not self:
        raise refused_here("copy.deepcopy copies two tensors that share memory: copy each by itself")
    return memo.setdefault(id(self), self.clone())


def _is_recorded(value: torch.Tensor) -> bool:
    return recorder_here().knows(unwrapped(value))


def _refuse_of_memory(name: str, self: torch.Tensor) -> None:
    """Refuse what the program asks about the memory of a tensor of the recording. torch may ask it for itself."""
    if _is_recorded(self) and runs_users_code(who_asks(current_frame())[0]):
        raise refused_here(
            f"the program reads Tensor.{name}, and the values of a model do not lie in a memory of which that could be "
            "told: decide by something else, such as `one is other`, or a flag of your own"
        )


def _asking(name: str) -> Patch:
    """The patch of a method that asks about memory."""

    def ask(torchs: Callable[..., Any], self: torch.Tensor, *args: Any) -> Any:
        _refuse_of_memory(name, self)
        return torchs(self, *args)

    return FunctionAttribute(torch.Tensor, name, ask)


def _asked(name: str) -> Patch:
    """The patch of an attribute that tells about memory."""

    def made_of(torchs: Any) -> property:
        def read(self: torch.Tensor) -> Any:
            if records_here():
                _refuse_of_memory(name, self)
            return torchs.__get__(self)

        return property(read)

    return Attribute(torch.Tensor, name, made_of)


def _with_size_in_bytes(torchs: Any) -> property:
    """`nbytes`, which torch's own computes without symbols."""
    return property(lambda self: self.numel() * self.itemsize if records_here() else torchs.__get__(self))


def _as_tensor(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    """A tensor that a recording has for a number of Python is none as a tensor of the program."""
    made: torch.Tensor = torchs(*args, **kwargs)
    return made.clone() if is_marked_number(made) else made


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(torch, "as_tensor", _as_tensor),
    FunctionCode(copy, "copy", _copy),
    FunctionAttribute(torch.Tensor, "__deepcopy__", _deep_copy),
    FunctionAttribute(torch.Tensor, "numpy", _read),
    FunctionAttribute(torch.Tensor, "tolist", _to_list),
    FunctionAttribute(torch.Tensor, "__repr__", _text),
    FunctionAttribute(torch.Tensor, "__dlpack__", _read),
    FunctionAttribute(torch, "to_dlpack", _read),
    FunctionAttribute(torch.utils.dlpack, "to_dlpack", _read),
    FunctionCode(torch.utils.dlpack, "from_dlpack", _from_dlpack),
    FunctionAttribute(torch.Tensor, "__bool__", _is_nonzero),
    FunctionAttribute(torch.Tensor, "item", _item),
    FunctionAttribute(torch.Tensor, "allclose", _are_close),
    FunctionAttribute(torch, "allclose", _are_close),
    FunctionAttribute(torch.Tensor, "is_nonzero", _is_nonzero),
    FunctionAttribute(torch, "is_nonzero", _is_nonzero),
    FunctionAttribute(torch.Tensor, "equal", _are_equal),
    FunctionAttribute(torch, "equal", _are_equal),
    Attribute(torch.Tensor, "nbytes", _with_size_in_bytes),
    *map(_asking, ("data_ptr", "is_set_to", "_is_view")),
    *map(_asked, ("_base", "_version")),
)
