"""jaxonnxruntime, which translates a model to JAX and compiles it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, saying
from onnx_parity.harness.subjects.delivered import input_names, proto_of


class _Session:
    def __init__(self, model: bytes | Path) -> None:
        # Without it, JAX makes 32 bits of 64 at the inputs, which no model asks for.
        os.environ.setdefault("JAX_ENABLE_X64", "1")
        from jaxonnxruntime import backend

        proto = proto_of(model)
        self._inputs = input_names(proto)
        self._program: Any = backend.prepare(proto, "CPU")

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [np.asarray(output) for output in self._program.run([feeds[name] for name in self._inputs])]


def _needs() -> str:
    lacking = [each for each in ("jax", "absl") if find_spec(each) is None]
    return f"it needs {' and '.join(lacking)}: pip install onnx-parity[backends]" if lacking else ""


RUNTIME = Adapter(
    name="jaxonnxruntime",
    module="jaxonnxruntime",
    packages=("jaxonnxruntime", "jax"),
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=frozenset(Dtype),
    open=_Session,
    is_refusal=saying("is not implemented", "not supported"),
    tracker="https://github.com/google/jaxonnxruntime/issues",
    needs=_needs,
    remedy="pip install onnx-parity[backends]",
)
