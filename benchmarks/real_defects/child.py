"""What runs where an old release is installed: the programs of defects, and models of one operator.

python -m benchmarks.real_defects.child shows NAME...
python -m benchmarks.real_defects.child runs RUNTIME MODELS RESULTS
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.real_defects.defect import read_defects

__all__: list[str] = []


def show(names: list[str]) -> None:
    """Print what each program shows, or nothing where it is right."""
    for defect in read_defects():
        if defect.name in names:
            print(json.dumps({defect.name: defect.shows()}), flush=True)


def run(runtime: str, models: Path, results: Path) -> None:
    """Run models with their inputs, and append the outputs, or the error, to those that are there."""
    done = 0
    if results.exists():
        with results.open("rb") as file:
            while file.peek(1):
                pickle.load(file)
                done += 1
    with results.open("ab", buffering=0) as file:
        for model, feeds in pickle.loads(models.read_bytes())[done:]:
            try:
                outputs: Any = _run(runtime, model, feeds)
            except Exception as error:  # noqa: BLE001  Releases raise anything for what they do not have.
                outputs = f"{type(error).__name__}: {error}"
            file.write(pickle.dumps(outputs))


def _run(runtime: str, model: bytes, feeds: dict[str, Any]) -> list[Any]:
    if runtime == "onnxruntime":
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        return list(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds))
    import onnx
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(onnx.load_from_string(model)).run(None, feeds))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    task, *rest = sys.argv[1:]
    if task == "shows":
        show(rest)
    else:
        run(rest[0], Path(rest[1]), Path(rest[2]))
