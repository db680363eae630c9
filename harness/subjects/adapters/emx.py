"""emx-onnx-cgen as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

import os
import shutil

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter
from onnx_parity.harness.subjects.loading import emx


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
    open=emx.load,
    is_refusal=lambda error: type(error).__name__ in ("UnsupportedOpError", "ShapeInferenceError"),
    tracker="https://github.com/emmtrix/emx-onnx-cgen/issues",
    needs=_needs,
)
