"""`torch.autograd.Function.apply` while a program is recorded: of a Function, that is its forward.

functorch's `functionalize` refuses to apply one. Ours is to be reached also by those who have kept torch's, as in

    binarize = Binarize.apply

so nothing is put in its place: where it is Python, before torch 2.15, it is given other code; where it is C, it is led
to the functions of torch's that it asks on its way.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx, _SingleLevelFunction

from onnx_parity.exporter.capture.record.autograd_functions import brings_symbolic, record_call

__all__ = ["put_back", "replace"]


class _ForwardContext(FunctionCtx):
    """The `ctx` of a forward that no backward follows."""

    def __init__(self, arguments: int) -> None:
        self.needs_input_grad = (False,) * arguments


def _record(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    forward = cls.forward
    if cls.setup_context is Function.setup_context:
        forward = functools.partial(forward, _ForwardContext(len(args)))
    if brings_symbolic(cls) and not kwargs:
        return record_call(cls, forward, args)
    return forward(*args, **kwargs)


def _never() -> bool:
    return False


class _InPython:
    """The code of `apply` is exchanged, for code of the same free variables: torch's has `__class__`."""

    def __init__(self, torchs: Any) -> None:
        self._function: FunctionType = torchs
        self._torchs_code = torchs.__code__
        #: torch's own, also while the function that everybody has is doing something else.
        self._torchs = FunctionType(
            torchs.__code__, torchs.__globals__, "apply", torchs.__defaults__, torchs.__closure__
        )
        self._is_recording: Callable[[], bool] = _never

    def apply(self, cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        return (_record if self._is_recording() else self._torchs)(cls, *args, **kwargs)

    def _code(cls, *args: Any, **kwargs: Any) -> Any:
        from onnx_parity.exporter.capture.patches.autograd_apply import apply

        assert __class__ is not None  # type: ignore[name-defined]
        return apply(cls, *args, **kwargs)  # type: ignore[arg-type]

    def replace(self, is_recording: Callable[[], bool]) -> None:
        self._is_recording = is_recording
        self._function.__code__ = _InPython._code.__code__

    def put_back(self) -> None:
        self._function.__code__ = self._torchs_code


class _InC:
    """`apply` asks whether `setup_context` is the class's own, binds arguments if so, and hands on to functorch.

    While that is at work in a thread that records, every class has one of its own; so `apply` comes to ours.
    """

    def __init__(self) -> None:
        self._names = vars(sys.modules[Function.__module__])
        self._torchs = {name: self._names[name] for name in ("_bind_default_args", "_call_custom_function_call")}
        self._is_recording: Callable[[], bool] = _never

    def __get__(self, instance: object, owner: type) -> Any:
        return _any_setup if self._records() else _SingleLevelFunction.setup_context

    def _records(self) -> bool:
        return self._is_recording() and torch._C._are_functorch_transforms_active()

    def _bind(self, forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
        if self._records():
            return args, kwargs or {}
        return self._torchs["_bind_default_args"](forward, args, kwargs)

    def _call(self, cls: type[Function], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
        if self._records():
            return _record(cls, *args, **(kwargs or {}))
        return self._torchs["_call_custom_function_call"](cls, args, kwargs)

    def replace(self, is_recording: Callable[[], bool]) -> None:
        self._is_recording = is_recording
        self._names.update(_bind_default_args=self._bind, _call_custom_function_call=self._call)
        Function.setup_context = self  # type: ignore[assignment,method-assign]

    def put_back(self) -> None:
        self._names.update(self._torchs)
        del Function.setup_context


def _any_setup(ctx: Any, inputs: Any, output: Any) -> None:
    """Of a class that has none."""


_apply = Function.__dict__["apply"]
_way = _InPython(_apply.__func__) if isinstance(_apply, classmethod) else _InC()
replace, put_back = _way.replace, _way.put_back


def apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    """What torch's own does, where it is Python, while some thread records."""
    assert isinstance(_way, _InPython)
    return _way.apply(cls, *args, **kwargs)
