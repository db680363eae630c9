"""tinygrad, whose CPU kernels are compiled with clang; without clang its interpreter of kernels runs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _module() -> Any:
    # Read when it is imported. It caches compiled kernels in a data base for all processes, which would wait for it.
    os.environ.setdefault("DEV", "CPU" if shutil.which(os.environ.get("CC", "clang")) else "PYTHON")
    os.environ.setdefault("CACHELEVEL", "0")
    import tinygrad.nn.onnx

    return tinygrad


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    tinygrad = _module()
    runner = tinygrad.nn.onnx.OnnxRunner(tinygrad.Tensor(model) if isinstance(model, bytes) else model)

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        # What it has computed from an input's values it keeps as if they were constants: with other values it is stale.
        runner._python_const_cache.clear()
        runner.variable_dims.clear()
        return [output.numpy() for output in runner(dict(inputs)).values()]

    return run
