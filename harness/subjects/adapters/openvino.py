"""OpenVINO on the CPU, which is asked for the accuracy of the model's own dtypes and one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying

#: Without the first of these, float32 is computed in bfloat16 on processors that have instructions for that.
_CONFIG = {"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


@cache
def _core() -> Any:
    import openvino

    return openvino.Core()


def _open(model: bytes | Path) -> Run:
    core = _core()
    compiled = core.compile_model(core.read_model(model if isinstance(model, bytes) else str(model)), "CPU", _CONFIG)

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        # It removes inputs that nothing reads, and then refuses to be given them.
        results = compiled([feeds[given.node.friendly_name] for given in compiled.inputs])
        return [results[output].copy() for output in compiled.outputs]

    return run


RUNTIME = Adapter(
    name="openvino",
    modules={"openvino": "openvino"},
    # https://docs.openvino.ai/2026/documentation/compatibility-and-support/supported-operations.html
    opsets=tuple(opset for opset in OPSETS if opset <= 23),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64},
    open=_open,
    is_refusal=saying(
        "does not support", "doesn't support", "No conversion rule found", "not supported", "not implemented"
    ),
    tracker="https://github.com/openvinotoolkit/openvino/issues",
)
