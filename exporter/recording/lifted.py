"""Programs that write to copies and views of their own tensors: `out = self.weight.clone(); out[0] = x`.

functorch's `functionalize` only handles writes to tensors that depend on its arguments. It fails for a write to a
tensor that depends only on tensors of the program itself, such as parameters, attributes, or those of a closure.
`Lifting` makes such tensors arguments when they are first used. It costs a few microseconds for each call, so it is
only used for programs that need it.

Some tensors of programs have a class that computes operators itself, in its `__torch_dispatch__`, with other tensors
that it holds. Libraries write weights of few bits so. Such a tensor has a dtype and a shape, but no memory of its own.
What its class does is recorded as torch calls it, by `result_by_class`; nothing else is known of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_parity.exporter.dispatch.composites import original, without_keeping
from onnx_parity.exporter.dispatch.functional import unwrapped
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Value
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.lost_writes import own_tensor_written
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor, computes_itself
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.modes import outside_of_transforms
from onnx_parity.exporter.torch_inside.pytree import tree_map_only
from onnx_parity.exporter.torch_inside.transforms import (
    Transform,
    current_level,
    functional_tensor,
    functionalizing_within,
    is_wrapped,
    number_of_writes,
    transforms,
    with_gradients,
)

__all__ = ["Lifting", "result_by_class"]

asks_for_its_caller(__file__)

#: What an embedding with `max_norm` writes to its weight. It is what the model reads there, each time anew.
_RENORM = torch.ops.aten.embedding_renorm.default


class Lifting(TorchFunctionMode):
    """Wraps each tensor that the program owns, the first time that it is used inside `functionalize`. With `every`, it
    wraps those that have been computed outside too."""

    def __init__(self, recorder: Recorder, *, every: bool = False) -> None:
        super().__init__()
        self._recorder = recorder
        self._every = every
        self._wrapped: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        level = current_level()
        assert level is not None, "lifting needs a surrounding functionalize"
        self._level = level
        #: The ids of those that the program gave the data of another tensor.
        self._given: set[int] = set()
        #: Those of them whose memory it had written to by then.
        self._written_before: list[torch.Tensor] = []
        recorder.give_data = self._give

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, self._lift, (args, kwargs or {}))
        result = func(*args, **kwargs)
        if isinstance(result, FakeTensor) and any(map(computes_itself, types)):
            return functional_tensor(result, self._level)  # `functionalize` has not seen the class compute it.
        return result

    @property
    def wrapped(self) -> list[torch.Tensor]:
        """The wrappers. If the program wrote to a tensor, its wrapper has another value than the tensor at the end."""
        return [wrapper for _, wrapper in self._wrapped.values()]

    @property
    def own(self) -> list[torch.Tensor]:
        """The tensors that were lifted, in the same order."""
        return [tensor for tensor, _ in self._wrapped.values()]

    def written(self, values: Sequence[Value], path_of: Callable[[torch.Tensor], str]) -> dict[str, Value]:
        """The new values of tensors that the program wrote to, by their paths, among these values of all wrappers.

        Weights and attributes may be written to, and weights be given other data. Any other write is refused.
        """
        found = {}
        for tensor, value in zip(self.own, values, strict=True):
            if value.node is not None and value.node.op is not _RENORM:
                name = self._recorder.name_of(tensor)
                path = name or path_of(tensor)
                if not path:
                    raise CaptureError(*own_tensor_written(value.node.origin, name).args)
                found[path] = value
        return found

    def before_writes(self, values: Sequence[Value]) -> list[Value]:
        """The values that tensors had whose memory the program wrote to, by these values of all wrappers."""
        ends = zip(self.own, values, strict=True)
        written = [own for own, value in ends if value.node is not None and id(own) not in self._given]
        return [self._recorder.value_of(self._recorder.constant(own)) for own in (*written, *self._written_before)]

    def as_written(self, tensor: torch.Tensor) -> torch.Tensor:
        """The wrapper of a tensor that the program owns and used; any other tensor itself."""
        own, wrapper = self._wrapped.get(id(tensor), (None, tensor))
        return tensor if own is None else wrapper

    def renormed(self, values: Sequence[Value]) -> list[str]:
        """The names of the weights that an embedding wrote to."""
        ends = zip(self.own, values, strict=True)
        return [self._recorder.name_of(tensor) for tensor, value in ends if value.node and value.node.op is _RENORM]

    def _give(self, tensor: torch.Tensor, data: torch.Tensor) -> None:
        """What `tensor.data = data` does: from now on, the tensor has the memory of the other one."""
        before = self._wrapped.get(id(tensor))
        if before is not None and id(tensor) not in self._given and number_of_writes(before[1]):
            self._written_before.append(tensor)
        self._wrapped[id(tensor)] = (tensor, self._lift(data))
        self._given.add(id(tensor))

    def _lift(self, tensor: torch.Tensor) -> torch.Tensor:
        # Within `torch.func.grad` and `vmap`, tensors are wrapped again.
        is_known = self._recorder.knows(tensor)
        if (is_known and not self._every) or is_wrapped(tensor) or computes_itself(type(tensor)):
            return tensor
        known = self._wrapped.get(id(tensor))
        if known is None:
            with outside_of_transforms():
                fake = tensor if is_known else self._recorder.constant(tensor)
            known = (tensor, self._as_argument(fake))
            self._wrapped[id(tensor)] = known
        return known[1]

    def _as_argument(self, fake: torch.Tensor) -> torch.Tensor:
        """The tensor as the innermost `functionalize` gives it to the program, and as transforms for gradients within
        it do."""
        outside = [each for each in transforms() if each.level() <= self._level]
        levels = [each.level() for each in outside if each.key() == Transform.Functionalize]
        innermost = max(levels, default=self._level)
        wrapped = functional_tensor(fake, innermost)
        for each in outside:
            if each.key() == Transform.Grad and each.level() > innermost:
                wrapped = with_gradients(wrapped, each.level())
        return wrapped


def result_by_class(recorder: Recorder, func: OpOverload, types: Sequence[type], args: Any, kwargs: Any) -> Any:
    """What the first of the classes returns that does not leave the operator to the next one."""
    op = original(func)

    def call() -> Any:
        if op is not func:
            # It was kept whole, and the classes know what torch decomposes it into.
            with without_keeping():
                return op.decompose(*args, **kwargs)
        for cls in filter(computes_itself, types):
            dispatch: Any = cls.__torch_dispatch__  # type: ignore[attr-defined]
            if (result := dispatch(op, types, args, kwargs)) is not NotImplemented:
                return result
        names = ", ".join(cls.__name__ for cls in types if computes_itself(cls))
        raise refused_here(f"{op.name()} is given a tensor of the class {names}, which does not compute it")

    before = len(recorder.nodes)
    with recorder:
        try:
            return call()
        except Reconsider as found:
            if Decision.WRAP_OWN_TENSORS not in found.decisions:
                raise
            del recorder.nodes[before:]
            return _without_writes(recorder, call)


def _without_writes(recorder: Recorder, call: Callable[[], Any]) -> Any:
    """The result of a call that writes to tensors which it makes of those inside."""

    def run() -> Any:
        with Lifting(recorder, every=True) as lifting:
            result = call()
        for tensor, wrapper in zip(lifting.own, lifting.wrapped, strict=True):
            value = recorder.value_of(unwrapped(wrapper))
            if value.node is not None and value is not recorder.value_of(tensor):
                raise CaptureError(*own_tensor_written(value.node.origin).args)
        return _with_plain_tensors(result)

    outside, recorder.lifts, give_data = recorder.lifts, True, recorder.give_data
    try:
        with functionalizing_within():
            return torch.func.functionalize(run, remove="mutations")()
    finally:
        recorder.lifts, recorder.give_data = outside, give_data


def _with_plain_tensors(result: Any) -> Any:
    """The same result, in which tensors that the class has made hold none whose writes are followed."""
    for each in result if isinstance(result, list | tuple) else [result]:
        if computes_itself(type(each)) and hasattr(each, "__tensor_flatten__"):
            for name in each.__tensor_flatten__()[0]:
                setattr(each, name, unwrapped(getattr(each, name)))
    return result
