"""Apache TVM: its Relax importer, its build for the CPU through LLVM, and its virtual machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.delivered import input_names, proto_of


class _Session:
    def __init__(self, model: bytes | Path) -> None:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        proto = proto_of(model)
        self._tvm: Any = tvm
        self._inputs = input_names(proto)
        built = relax.build(from_onnx(proto), target="llvm")
        self._machine: Any = relax.VirtualMachine(built, tvm.cpu())

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        tensors = [self._tvm.runtime.tensor(feeds[name]) for name in self._inputs]
        outputs = self._machine["main"](*tensors)
        several = [outputs] if hasattr(outputs, "numpy") else list(outputs)
        # A shape is an object of its own, which no model asks for.
        return [each.numpy() if hasattr(each, "numpy") else each for each in several]


RUNTIME = Adapter(
    name="tvm",
    module="tvm",
    packages=("apache-tvm",),
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=_Session,
    is_refusal=saying("not supported", "not implemented", "OpNotImplemented", "Unsupported"),
    tracker="https://github.com/apache/tvm/issues",
)
