"""The CUDA lane: why it cannot run here, and torch and onnxruntime set so that their results can be compared.

GPUs since Ampere multiply float32 in TF32, ten bits of mantissa, unless told not to. torch and onnxruntime have
different defaults, and neither says what it did: both are told here. Device memory is bounded per process, so that a
worker that asks for too much fails its own cell and not its neighbours'.
"""

from __future__ import annotations

import os
from functools import cache

import torch

#: Bytes of device memory that a process may use, for torch and for onnxruntime each.
MEMORY_LIMIT = 4 << 30


@cache
def missing() -> str:
    """Why CUDA cells cannot run here. Empty when they can."""
    import onnxruntime

    if not torch.cuda.is_available():
        return "no CUDA device"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this onnxruntime has no CUDA provider; install onnxruntime-gpu"
    return ""


def provider() -> tuple[str, dict[str, str]]:
    """onnxruntime's CUDA provider, as sessions of this lane are made with it."""
    options = {
        "use_tf32": "0",
        "gpu_mem_limit": str(MEMORY_LIMIT),
        "arena_extend_strategy": "kSameAsRequested",
        # The default tries every algorithm of every convolution: seconds a session, and another one each time.
        "cudnn_conv_algo_search": "HEURISTIC",
    }
    return "CUDAExecutionProvider", options


@cache
def prepare_torch() -> None:
    """Once a process, before torch's first reference on the device."""
    # Read by cuBLAS when its first handle is made; without it torch refuses deterministic matrix products.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, MEMORY_LIMIT / total))
