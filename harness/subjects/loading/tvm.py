"""Apache TVM: its Relax importer, its build for the CPU through LLVM, and its virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    machine: Any = relax.VirtualMachine(relax.build(from_onnx(proto), target="llvm"), tvm.cpu())

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        outputs = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
        several = [outputs] if hasattr(outputs, "numpy") else list(outputs)
        # A shape is an object of its own, which no model asks for.
        return [each.numpy() if hasattr(each, "numpy") else each for each in several]

    return run
