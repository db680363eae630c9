"""The CUDA device: the reason if it cannot be used, and settings that make torch and onnxruntime comparable on it.

GPUs since Ampere multiply float32 in TF32, with ten bits of mantissa, unless this is switched off. torch and
onnxruntime have different defaults, and neither reports which it used, so both are set here. Device memory is limited
for each process, and only as many processes use the device at a time as fit into its memory, so that a cell that needs
too much memory does not make other cells fail.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from onnx_parity.harness.subjects.slots import Slots

PROVIDER = "CUDAExecutionProvider"

#: Bytes of device memory that a process may use, for torch and for onnxruntime each.
MEMORY_LIMIT = 4 << 30


@contextmanager
def in_turn(waiting: Callable[[], None]) -> Iterator[None]:
    """A context in which this process has a slot on the device. Its cached memory is released afterwards."""
    with _slots().taken(waiting):
        prepare_torch()
        try:
            yield
        finally:
            torch.cuda.empty_cache()


@cache
def _slots() -> Slots:
    total = torch.cuda.get_device_properties(0).total_memory
    # torch and onnxruntime may each use this much memory.
    return Slots(Path(tempfile.gettempdir()) / f"parity-cuda-{os.getuid()}", max(1, total // (2 * MEMORY_LIMIT)))


def missing() -> str:
    """The reason why CUDA cells cannot run here; empty if they can."""
    if torch.cuda._is_in_bad_fork():
        return (
            "CUDA was used before the process for cells was started, perhaps where a declaration or a conftest.py is "
            "imported: use it only within functions that cells call"
        )
    return _missing_here()


@cache
def _missing_here() -> str:
    import onnxruntime

    if not torch.cuda.is_available():
        return "no CUDA device"
    if PROVIDER not in onnxruntime.get_available_providers():
        return "this onnxruntime has no CUDA provider; install onnxruntime-gpu"
    return ""


def provider() -> tuple[str, dict[str, str]]:
    """onnxruntime's CUDA provider with the options for cells of a CUDA device."""
    options = {
        "use_tf32": "0",
        "gpu_mem_limit": str(MEMORY_LIMIT),
        "arena_extend_strategy": "kSameAsRequested",
        # The default tries every algorithm of each convolution, which takes seconds for each session, and may choose
        # different ones each time.
        "cudnn_conv_algo_search": "HEURISTIC",
    }
    return PROVIDER, options


@cache
def prepare_torch() -> None:
    """Configure torch, once in each process, before its first reference on the device."""
    # cuBLAS reads this when its first handle is created. Without it torch refuses deterministic matrix products.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, MEMORY_LIMIT / total))
