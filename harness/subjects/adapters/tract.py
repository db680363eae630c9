"""tract, Sonos' inference engine in Rust."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.delivered import input_names, proto_of
from onnx_parity.harness.subjects.runtime_interface import Session


class _Session:
    def __init__(self, runnable: Any, inputs: Sequence[str]) -> None:
        self._runnable = runnable
        self._inputs = inputs

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [output.to_numpy() for output in self._runnable.run([feeds[name] for name in self._inputs])]


def _open(model: bytes | Path) -> Session:
    import tract

    inputs = input_names(proto_of(model))
    if isinstance(model, Path):
        return _Session(tract.onnx().load(model).into_model().into_runnable(), inputs)
    # It reads files only.
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model)
        file.flush()
        return _Session(tract.onnx().load(file.name).into_model().into_runnable(), inputs)


RUNTIME = Adapter(
    name="tract",
    module="tract",
    packages=("tract",),
    # https://github.com/sonos/tract: "approximately 85% of ONNX backend tests", which it runs up to opset 18.
    opsets=tuple(opset for opset in OPSETS if 9 <= opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=_open,
    is_refusal=saying("Unimplemented", "unimplemented", "not supported", "Unsupported", "No implementation"),
    tracker="https://github.com/sonos/tract/issues",
)
