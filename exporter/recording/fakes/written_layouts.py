"""How tensors lie in memory that the program has written to: as before, in PyTorch.

Functionalization computes another tensor, which may lie otherwise: a sum has no gaps where a slice has some, and an
axis of one element gets another stride where a tensor is made anew of a reshaped view of it. Where what a program does
depends on that (`Decision.LAYOUTS_OF_WRITTEN`), each tensor that it wrote to gets the strides back that it had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_parity.exporter.dispatch.functional import inside_of_gradients, unwrapped
from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.fake_mode import expressions
from onnx_parity.exporter.torch_inside.dispatcher import changes_layout
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory
from onnx_parity.exporter.torch_inside.transforms import inside_before_writes, is_functionaltensor, replace_value

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.recorder import Recorder

__all__ = ["WrittenLayouts"]

asks_for_its_caller(__file__)


class WrittenLayouts(TorchFunctionMode):
    """Sees each tensor that the program uses before it is written to, and gives it its strides back afterwards."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        #: The tensors of each memory by their ids, with the strides that they have in PyTorch.
        self._known: dict[int, dict[int, tuple[torch.Tensor, Sequence[Size]]]] = defaultdict(dict)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_transformed():
            return func(*args, **kwargs)
        given = _followed((args, kwargs))
        for tensor in given:
            self._note(tensor)
        result = func(*args, **kwargs)
        relaid = given[:1] if changes_layout(func) else []
        for tensor in relaid:
            self.forget(tensor)
        made = _followed(result)
        for tensor in (*relaid, *made):
            self._note(tensor)
        for memory in {identity_of_memory(tensor) for tensor in (*given, *made)}:
            for tensor, strides in [*self._known[memory].values()]:
                self._lay(tensor, strides)
        return result

    def knows(self, tensor: torch.Tensor) -> bool:
        inside = inside_of_gradients(tensor)
        return id(inside) in self._known[identity_of_memory(inside)]

    def _note(self, tensor: torch.Tensor) -> None:
        known = self._known[identity_of_memory(tensor)]
        if id(tensor) not in known:
            # A view is made of what has the right strides, and made anew of what does not once writes are applied.
            known[id(tensor)] = tensor, inside_before_writes(tensor).stride()

    def forget(self, tensor: torch.Tensor) -> None:
        for known in self._known.values():
            known.pop(id(tensor), None)

    def _lay(self, tensor: torch.Tensor, strides: Sequence[Size]) -> None:
        inside = unwrapped(tensor)
        if expressions(inside.stride()) == expressions(strides) or not isinstance(inside, FakeTensor):
            return
        recorder = self._recorder
        if inside.is_complex():  # The recorder holds its parts, of which nobody asks how they lie.
            self.forget(tensor)
            return
        laid = recorder.memo.empty(inside.dtype, tuple(inside.shape), inside.fake_device, strides)
        recorder.adopt(laid, recorder.value_of(inside))
        replace_value(tensor, laid)


def _followed(values: Any) -> list[torch.Tensor]:
    """The tensors among the values whose writes are followed, without what autograd wraps them in."""
    tensors: Iterable[Any] = (
        inside_of_gradients(each) for each in tree_leaves(values) if isinstance(each, torch.Tensor)
    )
    return [each for each in tensors if is_functionaltensor(each)]
