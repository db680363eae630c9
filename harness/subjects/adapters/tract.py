"""tract, Sonos' inference engine in Rust."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying


def _open(model: bytes | Path) -> Run:
    runnable = _load_model(model)

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [output.to_numpy() for output in runnable.run(list(feeds.values()))]

    return run


def _load_model(model: bytes | Path) -> Any:
    import tract

    if isinstance(model, Path):
        return tract.onnx().load(model).into_model().into_runnable()
    # It reads files only.
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model)
        file.flush()
        return _load_model(Path(file.name))


RUNTIME = Adapter(
    name="tract",
    modules={"tract": "tract"},
    # https://github.com/sonos/tract: "approximately 85% of ONNX backend tests", which it runs up to opset 18.
    opsets=tuple(opset for opset in OPSETS if 9 <= opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=_open,
    is_refusal=saying(
        "nimplemented", "not support", "Unsupported", "No implementation", "Unknown DatumType", "can not be typed"
    ),
    tracker="https://github.com/sonos/tract/issues",
)
