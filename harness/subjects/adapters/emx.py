"""emx-onnx-cgen, which writes a model as C; a C compiler makes a program of it, which is run for each set of inputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, Run
from onnx_parity.harness.subjects.delivered import proto_of


def _open(model: bytes | Path) -> Run:
    from emx_onnx_cgen import onnx_backend

    program: Any = onnx_backend.prepare(proto_of(model), "CPU")

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        outputs: Sequence[object] = program.run(list(feeds.values()))
        return outputs

    return run


def _needs() -> str:
    compiler = os.environ.get("CC", "cc").partition(" ")[0]
    return (
        ""
        if shutil.which(compiler)
        else f"emx needs a C compiler, and there is no {compiler!r}: install gcc or clang, or set CC"
    )


RUNTIME = Adapter(
    name="emx",
    modules={"emx-onnx-cgen": "emx_onnx_cgen"},
    # https://github.com/emmtrix/emx-onnx-cgen: "full standard ONNX opset 26 support".
    opsets=tuple(opset for opset in OPSETS if opset <= 26),
    dtypes=frozenset(Dtype),
    open=_open,
    is_refusal=lambda error: type(error).__name__ in ("UnsupportedOpError", "ShapeInferenceError"),
    tracker="https://github.com/emmtrix/emx-onnx-cgen/issues",
    needs=_needs,
)
