"""The surroundings of a recording: all patches of torch, and the state of the thread that records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from onnx_parity.exporter.patches import (
    autograd_apply,
    dynamic_lists,
    exporting_flag,
    fake_kernels,
    gradients,
    higher_order,
    math_functions,
    nested_tensors,
    neural_modules,
    parameters,
    quantization,
    random_numbers,
    scripts,
    sparse_tensors,
    tensor_layouts,
    tensor_reads,
)
from onnx_parity.exporter.patches.libraries import torchvision, transformers
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.torch_inside import dynamo
from onnx_parity.exporter.torch_inside.frames import FrameType
from onnx_parity.exporter.torch_inside.modes import outside_of_inference_mode
from onnx_parity.exporter.torch_inside.patch import Patches
from onnx_parity.exporter.torch_inside.this_thread import capturing, recording

__all__ = ["capturing_surroundings", "missing_functions", "recording_surroundings"]

#: Applied for as long as any thread captures a program.
_PATCHES = Patches(
    *autograd_apply.PATCHES,
    *dynamic_lists.PATCHES,
    *dynamo.PATCHES,
    *exporting_flag.PATCHES,
    *fake_kernels.PATCHES,
    *gradients.PATCHES,
    *higher_order.PATCHES,
    *nested_tensors.PATCHES,
    *neural_modules.PATCHES,
    *parameters.PATCHES,
    *quantization.PATCHES,
    *random_numbers.PATCHES,
    *scripts.PATCHES,
    *sparse_tensors.PATCHES,
    *tensor_layouts.PATCHES,
    *tensor_reads.PATCHES,
    *torchvision.PATCHES,
    *transformers.PATCHES,
)
#: Applied for as long as any thread captures one with symbols, of which there are none otherwise.
_WITH_SYMBOLS = Patches(
    *dynamic_lists.WITH_SYMBOLS,
    *fake_kernels.WITH_SYMBOLS,
    *math_functions.WITH_SYMBOLS,
    *neural_modules.WITH_SYMBOLS,
)


def missing_functions() -> list[str]:
    """The names of functions that a recording replaces and that the imported libraries do not have."""
    return [*_PATCHES.missing(), *_WITH_SYMBOLS.missing()]


@contextmanager
def capturing_surroundings(*, with_symbols: bool = False) -> Iterator[None]:
    """Apply the patches of torch. They only affect threads that record."""
    of_symbols = _WITH_SYMBOLS.in_place() if with_symbols else nullcontext()
    with outside_of_inference_mode(), capturing(), _PATCHES.in_place(), of_symbols:
        yield


def loops_followed(recorder: Recorder) -> Callable[..., bool | None]:
    """Have loops over dynamic sizes recorded. What records them is imported by the first one. Returns the function that
    tells what a frame is to do that asks a condition on sizes by which it may leave a `while`."""
    from onnx_parity.exporter.sizes.looped import Items
    from onnx_parity.exporter.torch_inside.loops.loops_of_python import test_of_call, test_of_loop

    loops: Any = None

    def load() -> None:
        from onnx_parity.exporter.recording.python_loops.python_loop import PythonLoop

        Items.loop = PythonLoop

    def stays(frame: FrameType, question: Any, is_returned: bool = False) -> bool | None:
        nonlocal loops
        test = test_of_call(frame) if is_returned else test_of_loop(frame)
        if test is None or test.is_in_for:
            return None
        if loops is None:
            from onnx_parity.exporter.recording.python_loops.python_loop import LoopsAsked

            loops = LoopsAsked(recorder)
        answer: bool | None = loops.stays(frame, test, question)
        return answer

    Items.load = staticmethod(load)
    return stays


@contextmanager
def recording_surroundings(recorder: Recorder) -> Iterator[None]:
    """Set up this thread for a recording. All of these settings are local to the thread, also those in torch."""
    # Autocast caches cast weights. Real ones must not be used in the recording, and fake ones not after it.
    caches_casts = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad(), recording(recorder), recorder.layouts_asked.following_writes():
            yield
    finally:
        torch.set_autocast_cache_enabled(caches_casts)
