"""IREE: its importer and compiler make a module for the CPU, which its runtime runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    from iree import runtime
    from iree.compiler import compile_str, ir
    from iree.compiler.extras import onnx_importer

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    info = onnx_importer.ModelInfo(proto)
    with ir.Context() as context:
        imported = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, imported).import_all()
        text = str(imported)
    compiled = compile_str(
        text, input_type="onnx", target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"]
    )
    loaded: Any = runtime.load_vm_flatbuffer(compiled, driver="local-sync")
    function = getattr(loaded, info.model_proto.graph.name)

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        outputs = function(*inputs.values())
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        return [np.asarray(each.to_host()) for each in several]

    return run
