"""emx-onnx-cgen, which writes a model as C; a C compiler makes a program of it, which is run for each set of inputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter
from onnx_parity.harness.subjects.delivered import input_names, proto_of


class _Session:
    def __init__(self, model: bytes | Path) -> None:
        from emx_onnx_cgen import onnx_backend

        proto = proto_of(model)
        self._inputs = input_names(proto)
        self._program: Any = onnx_backend.prepare(proto, "CPU")

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        outputs: Sequence[object] = self._program.run([feeds[name] for name in self._inputs])
        return outputs


def _needs() -> str:
    compiler = os.environ.get("CC", "cc").partition(" ")[0]
    return "" if shutil.which(compiler) else f"emx needs a C compiler, and there is no {compiler!r}"


RUNTIME = Adapter(
    name="emx",
    module="emx_onnx_cgen",
    packages=("emx-onnx-cgen",),
    # https://github.com/emmtrix/emx-onnx-cgen: "full standard ONNX opset 26 support".
    opsets=tuple(opset for opset in OPSETS if opset <= 26),
    dtypes=frozenset(Dtype),
    open=_Session,
    is_refusal=lambda error: type(error).__name__ in ("UnsupportedOpError", "ShapeInferenceError"),
    tracker="https://github.com/emmtrix/emx-onnx-cgen/issues",
    needs=_needs,
)
