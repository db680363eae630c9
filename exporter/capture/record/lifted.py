"""Programs that write into copies and views of their own tensors: `out = self.weight.clone(); out[0] = x`.

functorch's `functionalize` turns writes into values for what depends on its arguments. What depends only on tensors
that the program owns (parameters, attributes, those of a closure) it leaves alone, and fails when that is written to.
Lifting makes arguments of such tensors as they turn up. It costs a few microseconds a call, so it is only done for
programs that have shown the need.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.graph.origin import asks_for_its_caller
from onnx_parity.exporter.capture.record.recorder import Recorder

__all__ = ["Lifting"]

asks_for_its_caller(__file__)


class Lifting(TorchFunctionMode):
    """Wraps each tensor that the program owns, the first time that it is used inside `functionalize`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._wrapped: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        level = torch._C._functorch.maybe_current_level()
        assert level is not None, "lifting is for the inside of functionalize"
        self._level = level

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._lift, (args, kwargs or {}))
        return func(*args, **kwargs)

    @property
    def wrapped(self) -> list[torch.Tensor]:
        """The wrappers, whose values at the end differ from those of the tensors where the program wrote to them."""
        return [wrapper for _, wrapper in self._wrapped.values()]

    @property
    def own(self) -> list[torch.Tensor]:
        """The tensors that were lifted, in the same order."""
        return [tensor for tensor, _ in self._wrapped.values()]

    def _lift(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._recorder.knows(tensor) or torch._C._functorch.is_functionaltensor(tensor):
            return tensor
        known = self._wrapped.get(id(tensor))
        if known is None:
            with temporarily_clear_interpreter_stack():
                fake = self._recorder.constant(tensor)
            known = (tensor, torch._C._functorch._wrap_functional_tensor(fake, self._level))
            self._wrapped[id(tensor)] = known
        return known[1]
