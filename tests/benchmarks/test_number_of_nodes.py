"""The cost of a part of a program does not grow with the number of parts: function calls are counted, not time."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

import pytest
from torch import nn

import onnx_parity
from benchmarks.number_of_nodes.programs import KINDS

#: By how much the calls for twice as many more parts may exceed twice as many calls.
SPARE = 1.1


def calls_of_export(kind: str, number: int) -> int:
    """How many functions an export calls, and how many values it takes from generators."""
    program = KINDS[kind](number)
    function = program.function.eval() if isinstance(program.function, nn.Module) else program.function
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        onnx_parity.export(function, program.args)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_costs_as_much_however_many_there_are(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls_of_export(kind, 5)  # What is imported and remembered.
        few, more, many = (calls_of_export(kind, number) for number in (12, 24, 48))
    assert many - more <= 2 * (more - few) * SPARE
