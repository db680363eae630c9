"""Whether what the project has notices a defect: cells of the matrix, and cases of ONNX operators."""

from __future__ import annotations

import pickle
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_defects.defect import Defect
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.conformance.planning import declared_cases
from onnx_parity.harness.onnx_cases.case import Distribution, Expectation
from onnx_parity.harness.onnx_node import OnnxCase
from onnx_parity.harness.record import WRONG, Record
from onnx_parity.harness.store import read_records

__all__ = ["failing_cases", "has_operator", "is_of", "wrong_cells"]

_ROOT = Path(__file__).parents[2]
#: An exporter that takes a second for each cell is asked at the opset and in the dtypes of the reports.
_OF_DYNAMO = ("--opsets", "18", "--dtypes", "float32,int64")
#: The runtimes whose operators the cases of `op_cases/onnx/` try.
RUNTIMES = ("onnx.reference", "onnxruntime")


def wrong_cells(defects: Collection[Defect], python: str, only: Collection[str] | None = None) -> dict[str, Record]:
    """The cells of the declarations that these defects name, or only of some of them, which fail in an environment."""
    places = sorted({f"{place}.py" for each in defects for place in each.places})
    names = sorted({name for each in defects for name in each.names} if only is None else only)
    is_of_dynamo = any(each.culprit == "torch_dynamo" for each in defects)
    exporters = ["--exporters", "torch_dynamo", *_OF_DYNAMO] if is_of_dynamo else ["--exporters", "parity,torch_script"]
    if not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        words = ["run", "-n", "0", "--no-report", "--runs", folder, "--devices", "cpu", *exporters]
        done = subprocess.run(
            [python, "-m", "onnx_parity", *words, *places, "-k", " or ".join(names)],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        found = [path for path in Path(folder).iterdir() if path.is_dir() and not path.is_symlink()]
        if len(found) != 1:
            raise RuntimeError(f"parity {' '.join(words)} made no run: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return {record.cell: record for record in read_records(found[0]) if record.status in WRONG}


def is_of(defect: Defect, record: Record) -> bool:
    """Whether a cell is one of the declarations that a defect names."""
    return any(name in record.cell for name in defect.names)


def has_operator(record: Record, operator: str) -> bool:
    """Whether the graph has the ONNX operator, or the program the operator or function that an exporter gets wrong."""
    names = {use.op for use in record.onnx} | {name.partition("::")[2] for name in record.aten}
    return operator in names | {call.rpartition(".")[2] for call in record.calls}


def failing_cases(operator: str, runtime: str, python: str, *, silent: bool) -> set[str]:
    """The cases of an ONNX operator whose outputs are wrong in an environment, or, if not silent, that it refuses."""
    cases, models, expected = _models_of(operator)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        given, results = Path(folder) / "models", Path(folder) / "results"
        given.write_bytes(pickle.dumps(models))
        outputs: list[Any] = []
        # A model that ends the process is left out when the rest is run.
        while len(outputs) < len(models):
            words = [python, "-m", "benchmarks.real_defects.child", "runs", runtime, str(given), str(results)]
            done = subprocess.run(words, cwd=_ROOT, capture_output=True, check=False, text=True)
            outputs = list(_read(results))
            if len(outputs) < len(models):
                if done.returncode > 0:
                    raise RuntimeError(done.stderr)
                with results.open("ab") as file:
                    file.write(pickle.dumps("it ended the process"))
                outputs.append("it ended the process")
    return {
        case.id
        for case, got, right in zip(cases, outputs, expected, strict=True)
        if isinstance(got, str) is not silent and _differs(got, right)
    }


@cache
def _models_of(operator: str) -> tuple[Sequence[OnnxCase], Sequence[tuple[bytes, dict[str, Any]]], Sequence[Any]]:
    cases = [case for case in declared_cases() if case.declared.operator == operator]
    models, expected = [], []
    for case in cases:
        model, inputs, right = case.make_test()
        feeds = {value.name: each for value, each in zip(model.graph.input, inputs, strict=True)}
        models.append((model.SerializeToString(), feeds))
        expected.append(right)
    return cases, models, expected


def _read(results: Path) -> Iterable[Any]:
    if results.exists():
        with results.open("rb") as file:
            while file.peek(1):
                yield pickle.load(file)


def _differs(got: Any, right: Sequence[Expectation]) -> bool:
    return isinstance(got, str) or len(got) != len(right) or not all(map(_agrees, got, right))


def _agrees(output: Any, right: Expectation) -> bool:
    if isinstance(right, Expected):
        array = np.asarray(output)
        return judge([array.astype(object) if array.dtype.kind == "U" else array], [right]).passed
    if isinstance(right, list):
        return isinstance(output, list) and len(output) == len(right) and all(map(_agrees, output, right))
    if isinstance(right, Distribution):
        return not right.judge(np.asarray(output))
    return output is None
