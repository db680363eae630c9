"""tinygrad, whose CPU kernels are compiled with clang; without clang its interpreter of kernels runs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying


@cache
def _module() -> Any:
    # Read when it is imported. It caches compiled kernels in a data base for all processes, which would wait for it.
    os.environ.setdefault("DEV", "CPU" if shutil.which(os.environ.get("CC", "clang")) else "PYTHON")
    os.environ.setdefault("CACHELEVEL", "0")
    import tinygrad.nn.onnx

    return tinygrad


def _open(model: bytes | Path) -> Run:
    tinygrad = _module()
    runner = tinygrad.nn.onnx.OnnxRunner(tinygrad.Tensor(model) if isinstance(model, bytes) else model)

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        # What it has computed from an input's values it keeps as if they were constants: with other values it is stale.
        runner._python_const_cache.clear()
        runner.variable_dims.clear()
        return [output.numpy() for output in runner(dict(feeds)).values()]

    return run


RUNTIME = Adapter(
    name="tinygrad",
    modules={"tinygrad": "tinygrad"},
    # Its tests of models and nodes are those of onnx 1.18.
    opsets=tuple(opset for opset in OPSETS if opset <= 23),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.BFLOAT16, Dtype.INT16},
    open=_open,
    is_refusal=saying("is not supported", "not implemented"),
    tracker="https://github.com/tinygrad/tinygrad/issues",
)
