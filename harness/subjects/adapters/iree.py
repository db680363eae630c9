"""IREE: its importer and compiler make a module for the CPU, which its runtime runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying
from onnx_parity.harness.subjects.delivered import proto_of


def _open(model: bytes | Path) -> Run:
    from iree import runtime
    from iree.compiler import compile_str, ir
    from iree.compiler.extras import onnx_importer

    info = onnx_importer.ModelInfo(proto_of(model))
    with ir.Context() as context:
        imported = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, imported).import_all()
        text = str(imported)
    compiled = compile_str(
        text, input_type="onnx", target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"]
    )
    loaded: Any = runtime.load_vm_flatbuffer(compiled, driver="local-sync")
    function = getattr(loaded, info.model_proto.graph.name)

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        outputs = function(*feeds.values())
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        return [np.asarray(each.to_host()) for each in several]

    return run


RUNTIME = Adapter(
    name="iree",
    modules={"iree-base-compiler": "iree.compiler", "iree-base-runtime": "iree.runtime"},
    # torch-mlir, its importer's other half, converts a model to opset 17 where it is older, and tests up to 21.
    opsets=tuple(opset for opset in OPSETS if 17 <= opset <= 21),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.BFLOAT16, Dtype.INT16},
    open=_open,
    is_refusal=saying("failed to legalize", "not supported", "unsupported", "unimplemented"),
    tracker="https://github.com/iree-org/iree/issues",
)
