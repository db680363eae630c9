"""The cause of a failure is found, for planted faults of each kind. `python -m benchmarks.faults` plants more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_parity.harness.axes import OPSETS
from onnx_parity.harness.record import Blame, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import OnnxReference
from onnx_parity.op_cases.recurrent import packed_batch_first
from tests.harness import blamed
from tests.harness.fakes import cell


@pytest.mark.parametrize("kind", blamed.KINDS)
def test_the_planted_cause_is_blamed(kind: object) -> None:
    assert callable(kind)
    wrong = [words for number in range(6) if (words := kind(np.random.default_rng(number)).told_wrongly())]
    assert wrong == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_runtime_is_wrong_where_onnx_reference_is_and_onnxruntime_is_right(fails: bool) -> None:
    """Neither onnx.reference nor this runtime heeds the lengths of sequences. The graph that has them is right."""

    def refuse(model: bytes | Path) -> Run:
        raise RuntimeError("out of luck")

    other: Runtime = OnnxReference("other")
    if fails:
        other = Adapter("other", {"other": "onnx"}, OPSETS, USUAL_DTYPES, refuse, saying(), "")
    outcome = Bench(0, runtimes={"other": other}).run(cell(packed_batch_first, runtime="other"))
    assert (outcome.status, outcome.blame) == (Status.FAILED, Blame.RUNTIME)
    said = "onnxruntime runs it and agrees with torch, so other is wrong"
    if not fails:
        said = "onnx.reference agrees with the runtime, onnxruntime agrees with torch, so other is wrong"
    assert said in "\n".join(outcome.details)
