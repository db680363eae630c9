"""Operators on tensors whose class computes them itself, in its `__torch_dispatch__`, with other tensors that it holds.

Libraries write weights so that have few bits. Such a tensor has a dtype and a shape, but no memory of its own. What its
class does with the tensors inside is recorded, as torch calls it; nothing else is known of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.composites import original, without_keeping
from onnx_parity.exporter.dispatch.functional import unwrapped
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.lifted import Lifting
from onnx_parity.exporter.recording.lost_writes import own_tensor_written
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.fake_tensors import computes_itself
from onnx_parity.exporter.torch_inside.transforms import functionalizing_within

__all__ = ["result_by_class"]


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
