"""OpenVINO on the CPU, which is asked for the accuracy of the model's own dtypes and one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

#: Without the first of these, float32 is computed in bfloat16 on processors that have instructions for that.
CONFIG = {"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


@cache
def _core() -> Any:
    import openvino

    return openvino.Core()


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    core = _core()
    compiled = core.compile_model(core.read_model(model if isinstance(model, bytes) else str(model)), "CPU", CONFIG)

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        # It removes inputs that nothing reads, and then refuses to be given them.
        results = compiled([inputs[given.node.friendly_name] for given in compiled.inputs])
        return [results[output].copy() for output in compiled.outputs]

    return run
