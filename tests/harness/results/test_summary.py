"""The summary at the end of a run."""

from __future__ import annotations

import msgspec

from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.causes import causes_of
from onnx_parity.harness.results.terminal_summary import cells_here, counts, not_here, summarise, without_kernel
from tests.records import RECORD


def record(status: Status, opset: int, reason: str = "", case: str = "elu", exporter: str = "parity") -> Record:
    return msgspec.structs.replace(
        RECORD, case=case, status=status, stage=Stage.CHECK, opset=opset, reason=reason, exporter=exporter
    )


def test_opsets_are_shown_as_ranges() -> None:
    assert opset_ranges([13, 7, 8, 9, 18, 9]) == "7-9, 13, 18"
    assert opset_ranges([]) == ""


def test_a_cause_is_one_row_however_many_cells_have_it() -> None:
    records = [
        *(record(Status.FAILED, opset, "wrong opset") for opset in (7, 8, 9)),
        record(Status.FAILED, 9, "wrong shape"),
        record(Status.FAILED, 9, "wrong opset", exporter="torch_dynamo"),
        *(record(Status.ABSENT, 26, "no CUDA device", case) for case in ("elu", "relu")),
        record(Status.UNSUPPORTED, 7, "ONNX has no such thing"),
        record(Status.PASSED, 18),
    ]
    again = f"  again:  {RECORD.again}"
    causes = causes_of(each for each in records if each.status is not Status.PASSED)
    assert list(summarise(causes)) == [
        "failed: elu  check  3 cells, opset 7-9, float32: wrong opset",
        again,
        "failed: elu  check  1 cell, opset 9, float32: wrong shape",
        again,
        "failed: elu by torch_dynamo  check  1 cell, opset 9, float32: wrong opset",
        again,
        "unsupported: elu  check  1 cell, opset 7, float32: ONNX has no such thing",
    ]
    assert counts(records) == "5 failed, 1 unsupported, 1 passed"


def test_what_cannot_run_here_is_told_apart() -> None:
    records = [
        *(record(Status.ABSENT, 26, "no CUDA device", case) for case in ("elu", "relu")),
        record(Status.ABSENT, 9, "onnxscript is not installed"),
        record(Status.PASSED, 18),
    ]
    assert cells_here(records) == "1 of 4 cells"
    assert counts(records) == "1 passed"
    assert list(not_here(records)) == [
        "absent: 2 cells more: no CUDA device",
        "absent: 1 cell more: onnxscript is not installed",
    ]
    assert (cells_here(records[:2]), counts(records[:2])) == ("0 of 2 cells", "none ran")
    assert cells_here(records[3:]) == "1 cell"


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


def test_a_long_list_is_cut_with_the_number_of_further_causes() -> None:
    died = [record(Status.CRASHED, 9, f"died of {'a' * number}") for number in range(25)]
    lines = list(summarise(causes_of([*died, died[-1]])))
    assert len(lines) == 41
    assert lines[-1] == "crashed: 5 more causes, of 6 cells"
