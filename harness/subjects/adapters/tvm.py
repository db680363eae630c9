"""Apache TVM: its Relax importer, its build for the CPU through LLVM, and its virtual machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying
from onnx_parity.harness.subjects.delivered import proto_of


def _open(model: bytes | Path) -> Run:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    machine: Any = relax.VirtualMachine(relax.build(from_onnx(proto_of(model)), target="llvm"), tvm.cpu())

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        outputs = machine["main"](*map(tvm.runtime.tensor, feeds.values()))
        several = [outputs] if hasattr(outputs, "numpy") else list(outputs)
        # A shape is an object of its own, which no model asks for.
        return [each.numpy() if hasattr(each, "numpy") else each for each in several]

    return run


RUNTIME = Adapter(
    name="tvm",
    modules={"apache-tvm": "tvm"},
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=_open,
    is_refusal=saying("not supported", "not implemented", "OpNotImplemented", "Unsupported"),
    tracker="https://github.com/apache/tvm/issues",
)
