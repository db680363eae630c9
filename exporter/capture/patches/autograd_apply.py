"""`torch.autograd.Function.apply` while a program is recorded: of a Function, that is its forward.

functorch's `functionalize` refuses to apply one. Ours is to be reached also by those who have kept torch's, as in

    binarize = Binarize.apply

so nothing is put in its place: where it is Python, before torch 2.15, it is given other code; where it is C, it is led
to the functions of torch's that it asks on its way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx, _SingleLevelFunction

from onnx_parity.exporter.capture.patches.patch import Attribute, FunctionAttribute, FunctionCode, Patch, imported
from onnx_parity.exporter.capture.patches.this_thread import records_here
from onnx_parity.exporter.capture.record.autograd_functions import brings_symbolic, record_call

__all__ = ["PATCHES"]


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


def _apply(torchs: Callable[..., Any], cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    """`apply` where it is Python."""
    return _record(cls, *args, **kwargs)


def _is_recording_an_apply() -> bool:
    return records_here() and torch._C._are_functorch_transforms_active()


class _SetupContext:
    """`Function.setup_context` where `apply` is C.

    `apply` asks whether `setup_context` is the class's own, binds arguments if so, and hands on to functorch. While
    that is at work in a thread that records, every class has one of its own; so `apply` comes to ours.
    """

    def __get__(self, instance: object, owner: type) -> Any:
        return _any_setup if _is_recording_an_apply() else _SingleLevelFunction.setup_context


def _any_setup(ctx: Any, inputs: Any, output: Any) -> None:
    """Of a class that has none."""


def _bind(torchs: Callable[..., Any], forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    return (args, kwargs or {}) if _is_recording_an_apply() else torchs(forward, args, kwargs)


def _call(torchs: Callable[..., Any], cls: type[Function], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    return _record(cls, *args, **(kwargs or {})) if _is_recording_an_apply() else torchs(cls, args, kwargs)


def _patches() -> tuple[Patch, ...]:
    torchs = vars(Function)["apply"]
    if isinstance(torchs, classmethod):
        return (FunctionCode(lambda: torchs.__func__, _apply),)
    module = imported(Function.__module__)
    return (
        FunctionAttribute(module, "_bind_default_args", _bind),
        FunctionAttribute(module, "_call_custom_function_call", _call),
        Attribute(lambda: Function, "setup_context", lambda torchs: _SetupContext()),
    )


PATCHES = _patches()
