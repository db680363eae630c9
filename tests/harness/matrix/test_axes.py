"""The axes: the points that a tier and the options select."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.request import opsets as exporters
from onnx_parity.harness.axes import (
    EXPORTER_NAMES,
    MIDDLE_OPSET,
    ONNX_REFERENCE,
    ONNXRUNTIME,
    ONNXRUNTIME_OPSETS,
    OPSETS,
    AxisError,
    Breadth,
    Device,
    Selection,
    Tier,
    parse_names,
    parse_opsets,
)


def test_opsets_are_the_exporter_s() -> None:
    assert tuple(exporters.OPSETS) == OPSETS
    assert ONNXRUNTIME_OPSETS[-1] == exporters.NEWEST_OF_ONNXRUNTIME
    assert exporters.DEFAULT_OPSET == MIDDLE_OPSET


@pytest.mark.parametrize(
    ("text", "opsets"),
    [("9", (9,)), ("9,13-15", (9, 13, 14, 15)), (" 18 , 9", (9, 18)), ("9,9-10", (9, 10)), ("27-28", (27, 28))],
)
def test_opsets_are_read(text: str, opsets: tuple[int, ...]) -> None:
    assert parse_opsets(text) == opsets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nine", "--opsets nine: 'nine' is neither an opset nor a range. Write 9,13-18."),
        ("9,", "--opsets 9,: '' is neither an opset nor a range. Write 9,13-18."),
        ("9-", "--opsets 9-: '9-' is neither an opset nor a range. Write 9,13-18."),
        ("13-9", "--opsets 13-9: '13-9' is in descending order. Write 9-13."),
        ("6-9", "--opsets 6-9: there is no opset 6 here, only 7 to 28."),
        ("29", "--opsets 29: there is no opset 29 here, only 7 to 28."),
    ],
)
def test_opsets_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(AxisError) as refused:
        parse_opsets(text)
    assert str(refused.value) == message


def test_a_name_that_is_not_on_the_axis_is_refused() -> None:
    assert parse_names("--exporters", "parity, torch_script", EXPORTER_NAMES) == ("parity", "torch_script")
    with pytest.raises(AxisError) as refused:
        parse_names("--devices", "cpu,gpu", tuple(Device))
    assert str(refused.value) == "--devices cpu,gpu: there is no 'gpu', only cpu, cuda."


def test_tiers_hold_one_another() -> None:
    for breadth in Breadth:
        for turn in range(2):
            smoke, default, full = (set(Selection(tier=tier).opsets_of(breadth, turn)) for tier in Tier)
            assert smoke <= default < full


def test_a_tier_includes_the_smaller_ones() -> None:
    assert Tier.FULL.includes(Tier.SMOKE)
    assert not Tier.SMOKE.includes(Tier.DEFAULT)


def test_in_turn_the_opsets_of_a_breadth_are_all_run() -> None:
    def opsets(breadth: Breadth) -> set[int]:
        return {opset for turn in range(9) for opset in breadth.default(turn)}

    assert opsets(Breadth.EVERY) == set(range(7, 27))
    assert opsets(Breadth.SPREAD) == {9, 11, 13, 18, 23, 26}
    assert opsets(Breadth.TURNING) == {7, 9, 10, 11, 13, 16, 18, 21, 23, 26}


def test_opsets_past_onnxruntime_run_on_the_reference() -> None:
    selection = Selection(tier=Tier.FULL)
    assert {selection.runtimes_at(opset) for opset in range(7, 27)} == {(ONNXRUNTIME,)}
    assert {selection.runtimes_at(opset) for opset in (27, 28)} == {(ONNX_REFERENCE,)}
    assert Selection(runtimes=(ONNX_REFERENCE,)).runtimes_at(9) == (ONNX_REFERENCE,)


def test_the_cuda_lane_is_the_newest_opset_that_onnxruntime_runs() -> None:
    opsets = (9, 26, 28)
    lanes = {opset: Selection().devices_at(opset, opsets) for opset in opsets}
    assert lanes == {9: (Device.CPU,), 26: (Device.CPU, Device.CUDA), 28: (Device.CPU,)}
    assert Selection(devices=(Device.CUDA,)).devices_at(9, opsets) == (Device.CUDA,)
    assert Selection().devices_at(28, (28,)) == (Device.CPU,)
