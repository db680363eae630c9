"""Patches `torch.autograd.Function.apply`, so that a recorded call runs the function's forward.

functorch's `functionalize` refuses to apply an autograd function. Code that has stored a reference to torch's method,

    binarize = Binarize.apply

must call the replacement too, so replacing the attribute is not enough. Before torch 2.15 the method is written in
Python, and its code is replaced. Since then it is written in C, and the Python functions that it calls are replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch.autograd.function import Function, FunctionCtx

from onnx_parity.exporter.dispatch.gradients import differentiates_once, needs_derivative, refuse_to_differentiate
from onnx_parity.exporter.recording.autograd_functions import has_symbolic, record_call
from onnx_parity.exporter.torch_inside.patch import Attribute, FunctionAttribute, FunctionCode, Patch, of_module
from onnx_parity.exporter.torch_inside.this_thread import records_here
from onnx_parity.exporter.torch_inside.transforms import BaseFunction, are_transforms_active, with_applied_functions

__all__ = ["PATCHES"]


class _ForwardContext(FunctionCtx):
    """The `ctx` of a forward without a backward."""

    def __init__(self, arguments: int) -> None:
        self.needs_input_grad = (False,) * arguments


def _record(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    if not kwargs and differentiates_once() and needs_derivative(args):
        # Autograd calls the backward of the function, whose operators are recorded like any others.
        with with_applied_functions():
            return super(Function, cls).apply(*args)  # type: ignore[misc]
    refuse_to_differentiate(f"{cls.__name__}, an autograd function", (*args, *kwargs.values()))
    forward = cls.forward
    if cls.setup_context is Function.setup_context:
        forward = functools.partial(forward, _ForwardContext(len(args)))
    if has_symbolic(cls) and not kwargs:
        return record_call(cls, forward, args)
    return forward(*args, **kwargs)


def _apply(torchs: Callable[..., Any], cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    """Replaces `apply` if it is written in Python."""
    return _record(cls, *args, **kwargs)


def _is_recording_an_apply() -> bool:
    return records_here() and are_transforms_active()


class _SetupContext:
    """Replaces `Function.setup_context` if `apply` is written in C.

    `apply` checks whether the class overrides `setup_context`. If it does, `apply` binds the arguments and calls
    functorch, both with the patched functions. So in a thread that records, every class appears to override it.
    """

    def __get__(self, instance: object, owner: type) -> Any:
        return _any_setup if _is_recording_an_apply() else BaseFunction.setup_context


def _any_setup(ctx: Any, inputs: Any, output: Any) -> None:
    """The `setup_context` of a class that has none."""


def _bind(torchs: Callable[..., Any], forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    return (args, kwargs or {}) if _is_recording_an_apply() else torchs(forward, args, kwargs)


def _call(torchs: Callable[..., Any], cls: type[Function], args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    return _record(cls, *args, **(kwargs or {})) if _is_recording_an_apply() else torchs(cls, args, kwargs)


def _patches() -> tuple[Patch, ...]:
    if isinstance(vars(Function)["apply"], classmethod):
        return (FunctionCode(Function, "apply", _apply),)
    module = of_module(Function.__module__)
    return (
        FunctionAttribute(module, "_bind_default_args", _bind),
        FunctionAttribute(module, "_call_custom_function_call", _call),
        Attribute(Function, "setup_context", lambda torchs: _SetupContext()),
    )


PATCHES = _patches()
