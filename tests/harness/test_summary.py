"""The summary at the end of a run."""

from __future__ import annotations

import msgspec

from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.terminal_summary import counts, summarise, without_kernel
from tests.records import RECORD


def record(status: Status, opset: int, reason: str = "", case: str = "elu", exporter: str = "parity") -> Record:
    return msgspec.structs.replace(
        RECORD, case=case, status=status, stage=Stage.CHECK, opset=opset, reason=reason, exporter=exporter
    )


def test_opsets_are_shown_as_ranges() -> None:
    assert opset_ranges([13, 7, 8, 9, 18, 9]) == "7-9, 13, 18"
    assert opset_ranges([]) == ""


def test_a_fault_is_one_line_however_many_cells_have_it() -> None:
    records = [
        *(record(Status.FAILED, opset, "wrong opset") for opset in (7, 8, 9)),
        record(Status.FAILED, 9, "wrong shape"),
        record(Status.FAILED, 9, "wrong opset", exporter="torch_dynamo"),
        *(record(Status.ABSENT, 26, "no CUDA device", case) for case in ("elu", "relu")),
        record(Status.UNSUPPORTED, 7, "ONNX has no such thing"),
        record(Status.PASSED, 18),
    ]
    assert list(summarise(records)) == [
        "failed: elu float32  opset 7-9  check: wrong opset",
        "failed: elu float32  opset 9  check: wrong shape",
        "failed: elu float32 torch_dynamo  opset 9  check: wrong opset",
        "unsupported: elu float32  opset 7  check: ONNX has no such thing",
        "absent: 2 cells: no CUDA device",
    ]
    assert counts(records) == "5 failed, 1 unsupported, 2 absent, 1 passed"


def test_cells_that_ran_on_another_runtime_are_counted() -> None:
    ids = {
        "elu-float32-opset9-cpu-trace-onnxruntime": "onnx.reference",
        "elu-float32-opset9-cpu-trace-onnxruntime-dynamic": "onnx.reference",
        "elu-float32-opset9-cpu-trace-onnx.reference": "onnx.reference",
        "elu-float64-opset9-cpu-trace-onnxruntime": "onnxruntime",
    }
    records = [msgspec.structs.replace(RECORD, cell=cell, runtime=runtime) for cell, runtime in ids.items()]
    assert without_kernel(records) == "2 cells ran on onnx.reference, because onnxruntime has no kernel"
    assert without_kernel(records[2:]) == ""


def test_a_long_list_is_cut_with_the_number_of_further_groups() -> None:
    lines = list(summarise([record(Status.CRASHED, 9, "died", f"case{number}") for number in range(25)]))
    assert len(lines) == 21
    assert lines[-1] == "crashed: 5 more groups of cells"
