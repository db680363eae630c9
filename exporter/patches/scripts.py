"""Patches calls of compiled TorchScript, so that they are interpreted and recorded with their branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch
from onnx_parity.exporter.torch_inside.this_thread import recorder_here
from onnx_parity.exporter.torch_inside.torchscript import ScriptFunction, ScriptMethod, is_of_cpp_class, tracing

__all__ = ["PATCHES"]


def _call(torchs: Callable[..., Any], callee: Any, *args: Any, **kwargs: Any) -> Any:
    """Interpret a compiled function or method."""
    from onnx_parity.exporter.recording.blocks import Blocks
    from onnx_parity.exporter.script.interpreter import run_script

    return run_script(Blocks(recorder_here()), callee, args, kwargs)


def _call_method(torchs: Callable[..., Any], callee: Any, *args: Any, **kwargs: Any) -> Any:
    """Interpret a method, unless it is one of C++: the packed weights of quantized layers have such."""
    if is_of_cpp_class(callee):
        return torchs(callee, *args, **kwargs)
    return _call(torchs, callee, *args, **kwargs)


def _is_tracing(torchs: Callable[[], bool]) -> bool:
    """Answer `_script_if_tracing` with True, so that functions with this decorator are compiled with their branches."""
    return True


def _compiled_or_itself(torchs: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function; return it unchanged if TorchScript fails, because a part of it has been patched."""
    try:
        compiled: Callable[..., Any] = torchs(function)
    except RuntimeError:
        return function
    return compiled


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(ScriptFunction, "__call__", _call),
    FunctionAttribute(ScriptMethod, "__call__", _call_method),
    # These are the names that `_script_if_tracing` calls. `torch.jit.is_tracing` is not changed for other callers.
    FunctionAttribute(tracing, "is_tracing", _is_tracing),
    FunctionAttribute(tracing, "script", _compiled_or_itself),
)
