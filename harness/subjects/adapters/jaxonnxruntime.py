"""jaxonnxruntime, which translates a model to JAX and compiles it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, Run, saying
from onnx_parity.harness.subjects.delivered import proto_of


def _open(model: bytes | Path) -> Run:
    # Without it, JAX makes 32 bits of 64 at the inputs, which no model asks for.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    from jaxonnxruntime import backend

    program: Any = backend.prepare(proto_of(model), "CPU")

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [np.asarray(output) for output in program.run(list(feeds.values()))]

    return run


RUNTIME = Adapter(
    name="jaxonnxruntime",
    # It imports absl without saying so.
    modules={"jaxonnxruntime": "jaxonnxruntime", "jax": "jax", "absl-py": "absl"},
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=frozenset(Dtype),
    open=_open,
    is_refusal=saying("is not implemented", "not supported"),
    tracker="https://github.com/google/jaxonnxruntime/issues",
)
