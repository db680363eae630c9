"""Differences from torch that rounding alone may make, which a search does not report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from onnx_parity.exporter.verification.oracle import expect, judge
from onnx_parity.harness.cases.program import InputSet
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.search.fixed import Fixed
from onnx_parity.harness.search.generated import GeneratedProgram, Input, Line
from onnx_parity.harness.search.generating import quietly
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.roundings import may_be_rounding


@pytest.mark.parametrize(
    ("call", "values", "got", "explained"),
    [
        ("torch.floor(torch.fft.fft(a).real)", [0.3, 0.3, 0.3], [0.0, -1.0, 0.0], True),
        ("torch.floor(a)", [2.0, 3.0, 0.5], [1.0, 3.0, 0.0], False),
        ("torch.floor(a / 3 * 3)", [2.7, 1.0, 0.5], [2.0, 0.0, 0.0], True),
        ("torch.floor(a / 3 * 3)", [2.7, 1.0, 0.5], [1.0, 1.0, 0.0], False),
        ("torch.kthvalue(a, 2).indices", [1.0, 1.0, 5.0], 1 - int(torch.tensor([1.0, 1.0, 5.0]).kthvalue(2)[1]), True),
        ("torch.kthvalue(a, 2).indices", [1.0, 2.0, 5.0], 2, False),
        ("torch.linalg.eigvals(torch.diag(a)).real", [1.0, 2.0, 3.0], [3.0, 1.0, 2.0], True),
        ("torch.linalg.eigvals(torch.outer(a, a) + a).real", [1.0, 2.0, 3.1], [20.0, 1.0, 2.0], False),
        ("torch.sin(a)", [1.0, 2.0, 3.0], [0.8, 0.9, 0.1], False),
        ("torch.linalg.pinv(torch.outer(a, a) / 3, rtol=1e-9)", [1.0, 2.0, 3.1], torch.eye(3).tolist(), True),
        ("torch.copysign(a, (a - a).clamp(a - a, a))", [1.0, 2.0, 3.0], [1.0, -2.0, -3.0], True),
        ("torch.copysign(a, a - a)", [1.0, 2.0, 3.0], [1.0, -2.0, -3.0], False),
        ("-(a - a)", [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], False),
        ("torch.complex(a.sin(), a).abs()", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], False),
    ],
)
def test_what_rounding_may_make_is_no_fault(call: str, values: list[float], got: object, explained: bool) -> None:
    inputs = (Input("a", Fixed((3,), dtype=torch.float32, tensor=torch.tensor(values)), {}),)
    subject = ProbedProgram(GeneratedProgram(inputs, (Line(f"v = {call}", ("v",), ("a",), "a rule"),), ("v",)))
    with quietly():
        value = subject.run(subject.program.values())[0].numpy()
        tensors = subject.program.values()
        trial = Trial(InputSet(0), tensors, {}, [[expect(value, None)]])
        outputs = (np.asarray(got, value.dtype),)
        verdict = judge(outputs, trial.expected)
        assert not verdict.passed or (value == 0).all()
        assert may_be_rounding(subject, trial, outputs, verdict) is explained
    subject.release()
