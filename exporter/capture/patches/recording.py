"""What is different while a program is recorded: all that is put into torch, and the state of the recording thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from onnx_parity.exporter.capture.patches import (
    autograd_apply,
    dynamo,
    fake_kernels,
    higher_order,
    neural_modules,
    scripts,
    tensor_reads,
    torchvision,
)
from onnx_parity.exporter.capture.patches.patch import LogFilter, Patches
from onnx_parity.exporter.capture.patches.this_thread import capturing, recording
from onnx_parity.exporter.capture.record.recorder import Recorder

__all__ = ["capturing_surroundings", "recording_surroundings"]

#: Put in for as long as any thread captures a program.
_PATCHES = Patches(
    *autograd_apply.PATCHES,
    *dynamo.PATCHES,
    *fake_kernels.PATCHES,
    *higher_order.PATCHES,
    *neural_modules.PATCHES,
    *scripts.PATCHES,
    *tensor_reads.PATCHES,
    *torchvision.PATCHES,
    # torch logs each failure over fake tensors with a traceback; what went wrong is in the error that is raised.
    LogFilter("torch._subclasses.fake_tensor"),
)


@contextmanager
def capturing_surroundings() -> Iterator[None]:
    """All that is put into torch. It is for the threads that record alone, and the others do not notice."""
    with capturing(), _PATCHES.in_place():
        yield


@contextmanager
def recording_surroundings(recorder: Recorder) -> Iterator[None]:
    """The state of this thread. Everything in it is the thread's own in torch, too."""
    # Autocast remembers the weights that it has cast: there are real ones from before, and fake ones for afterwards.
    caches_casts = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad(), recording(recorder):
            yield
    finally:
        torch.set_autocast_cache_enabled(caches_casts)
