"""What is different in torch while a program is recorded: what would go around the dispatcher, logs, compiled parts."""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.nn.parallel import DistributedDataParallel

from onnx_parity.exporter.capture.patches import autograd_apply, torchvision
from onnx_parity.exporter.capture.record.blocks import Blocks
from onnx_parity.exporter.capture.record.recorder import Recorder
from onnx_parity.exporter.capture.sources.higher_order import FUNCTIONS, OPERATORS

__all__ = ["recording_surroundings"]


@contextmanager
def recording_surroundings(recorder: Recorder) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(_plain_attention())
        stack.enter_context(_no_cached_casts())
        stack.enter_context(_quiet())
        stack.enter_context(_replaced_methods(recorder))
        stack.enter_context(_unchecked_packing())
        stack.enter_context(_on_one_device())
        if "torch._dynamo" in sys.modules:
            # A compiled part is recorded as it was written. Whoever compiled one has imported dynamo, which is slow.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@contextmanager
def _plain_attention() -> Iterator[None]:
    """The fused attention and encoder-layer kernels are one opaque operator; their written-out path exports."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _unchecked_packing() -> Iterator[None]:
    """Recurrent modules check a state's size against the number of packed sequences, known at run time only."""
    checks = {module: module.check_forward_args for module in (torch.nn.RNNBase, torch.nn.LSTM)}

    def unless_packed(check: Callable[..., None]) -> Callable[..., None]:
        def checked(self: torch.nn.RNNBase, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
            if batch_sizes is None:
                check(self, input, hidden, batch_sizes)

        return checked

    for module, check in checks.items():
        module.check_forward_args = unless_packed(check)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module, check in checks.items():
            module.check_forward_args = check  # type: ignore[method-assign]


@contextmanager
def _on_one_device() -> Iterator[None]:
    """`DataParallel` hands parts of a batch to copies of its module on other devices; the module itself will do."""
    forwards = {wrapper: wrapper.forward for wrapper in (torch.nn.DataParallel, DistributedDataParallel)}

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    for wrapper in forwards:
        wrapper.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        for wrapper, own in forwards.items():
            wrapper.forward = own  # type: ignore[method-assign]


@contextmanager
def _no_cached_casts() -> Iterator[None]:
    """Autocast remembers the weights that it has cast: real ones from before, and fake ones for afterwards."""
    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch logs each failure over fake tensors with a traceback; what went wrong is in the error that is raised."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    # Not by its level: a change of one makes every logger forget what it has found out, 0.2 ms.
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


# --- what goes around torch's dispatcher ------------------------------------------------------------------------------

_lock = threading.Lock()
#: Of each thread that records, its recorder.
_recording: dict[int, Recorder] = {}


def _is_recording_here() -> bool:
    return threading.get_ident() in _recording


def _reading(name: str) -> Callable[..., Any]:
    """A method that reads a tensor's memory. A fake tensor has none: torch's own gives what happens to lie there."""
    method = getattr(torch._C.TensorBase, name)

    @functools.wraps(method)
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        recorder = _recording.get(threading.get_ident())
        if recorder is None:
            return method(self, *args, **kwargs)
        value = recorder.read_out(self)
        with torch.utils._python_dispatch._disable_current_modes(), temporarily_clear_interpreter_stack():
            return method(value.detach(), *args, **kwargs)

    return read


_READING = {name: _reading(name) for name in ("numpy", "tolist")}


def _record_operator(operator: Any, original: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    """What is called instead of a higher-order operator."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _recording.get(threading.get_ident())
        if recorder is None or self is not operator:
            return original(self, *args, **kwargs)
        return record(Blocks(recorder), *args, **kwargs)

    return call


def record_higher_order(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What happens in `cond` and its kin: they are recorded, or done as torch has it where nothing is recorded."""
    function = next(each for each in FUNCTIONS if each.__name__ == name)
    recorder = _recording.get(threading.get_ident())
    if recorder is None:
        code = _torch_codes[name]
        torchs = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
        torchs.__kwdefaults__ = function.__kwdefaults__
        return torchs(*args, **kwargs)
    return FUNCTIONS[function](Blocks(recorder), *args, **kwargs)


def _cond(*args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.capture.patches.torch_behaviour import record_higher_order

    return record_higher_order("cond", args, kwargs)


def _while_loop(*args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.capture.patches.torch_behaviour import record_higher_order

    return record_higher_order("while_loop", args, kwargs)


def _scan(*args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.capture.patches.torch_behaviour import record_higher_order

    return record_higher_order("scan", args, kwargs)


def _associative_scan(*args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.capture.patches.torch_behaviour import record_higher_order

    return record_higher_order("associative_scan", args, kwargs)


def _map(*args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.capture.patches.torch_behaviour import record_higher_order

    return record_higher_order("map", args, kwargs)


def _script_call(callee: Any, *args: Any, **kwargs: Any) -> Any:
    """A compiled function or method: its branches and loops are kept."""
    recorder = _recording.get(threading.get_ident())
    if recorder is None:
        return _SCRIPT_CALLS[type(callee)](callee, *args, **kwargs)
    from onnx_parity.exporter.capture.script.interpreter import run_script

    return run_script(Blocks(recorder), callee, args, kwargs)


_SCRIPT_CALLS = {compiled: compiled.__call__ for compiled in (torch._C.ScriptFunction, torch._C.ScriptMethod)}


def _is_recording() -> bool:
    """What `_script_if_tracing` asks: functions whose authors want them compiled, and so their branches kept."""
    return _is_recording_here() or bool(_JIT["is_tracing"]())


def _compiled_or_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled, where TorchScript can; it cannot where a part of it was replaced."""
    try:
        compiled: Callable[..., Any] = _JIT["script"](function)
    except RuntimeError:
        return function
    return compiled


#: torch's own of what `_script_if_tracing` calls, and ours. Others who ask whether TorchScript traces are told no.
_JIT = {name: getattr(torch.jit._trace, name) for name in ("is_tracing", "script")}
_OUR_JIT = {"is_tracing": _is_recording, "script": _compiled_or_itself}

#: torch's functions start dynamo, which takes seconds, before they call their operators. It is their code that is
#: replaced, so that a program has ours under whatever name it imported them. This code runs among torch's globals.
_CODES = {
    "cond": _cond.__code__,
    "while_loop": _while_loop.__code__,
    "scan": _scan.__code__,
    "associative_scan": _associative_scan.__code__,
    "map": _map.__code__,
}
_torch_codes = {function.__name__: function.__code__ for function in FUNCTIONS}
_OPERATORS = {
    operator: (type(operator).__call__, _record_operator(operator, type(operator).__call__, record))
    for operator, record in OPERATORS.items()
}


@contextmanager
def _replaced_methods(recorder: Recorder) -> Iterator[None]:
    """torch's own are back when the last thread has finished; meanwhile threads that do not record get torch's."""
    thread = threading.get_ident()
    with _lock:
        outer = _recording.get(thread)
        _recording[thread] = recorder
        autograd_apply.replace(_is_recording_here)
        for name, method in _READING.items():
            setattr(torch.Tensor, name, method)
        vars(torch.jit._trace).update(_OUR_JIT)
        torchvision.replace(_is_recording_here)
        for compiled in _SCRIPT_CALLS:
            compiled.__call__ = _script_call  # type: ignore[assignment,method-assign]
        for function in FUNCTIONS:
            function.__code__ = _CODES[function.__name__]
        for operator, (_, ours) in _OPERATORS.items():
            type(operator).__call__ = ours
    try:
        yield
    finally:
        with _lock:
            if outer is None:
                del _recording[thread]
            else:
                _recording[thread] = outer
            if not _recording:
                autograd_apply.put_back()
                for name in _READING:
                    delattr(torch.Tensor, name)
                vars(torch.jit._trace).update(_JIT)
                torchvision.put_back()
                for compiled, call in _SCRIPT_CALLS.items():
                    compiled.__call__ = call  # type: ignore[method-assign]
                for function in FUNCTIONS:
                    function.__code__ = _torch_codes[function.__name__]
                for operator, (torchs, _) in _OPERATORS.items():
                    type(operator).__call__ = torchs
