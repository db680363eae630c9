"""Exporters compared by the records of runs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from onnx_parity.harness.cell_ids import runtime_asked
from onnx_parity.harness.cli import app
from onnx_parity.harness.record import Blame, Kind, Record, Status
from onnx_parity.harness.results.exporters_compared import compare
from tests.records import RECORD, write_run

PASSED, FAILED, UNSUPPORTED = Status.PASSED, Status.FAILED, Status.UNSUPPORTED


def record(name: str, exporter: str, status: Status, opset: int = 18) -> Record:
    cell = f"{name}-float32-opset{opset}-cpu-trace-onnxruntime-{exporter}"
    return msgspec.structs.replace(
        RECORD, cell=cell, case=name, name=name, exporter=exporter, status=status, opset=opset
    )


RECORDS = [
    record("elu", "parity", PASSED),
    record("elu", "torch_dynamo", PASSED),
    record("selu", "parity", PASSED),
    record("selu", "torch_dynamo", FAILED),
    record("selu", "parity", PASSED, 9),
    record("selu", "torch_dynamo", PASSED, 9),
    record("celu", "parity", UNSUPPORTED),
    record("celu", "torch_dynamo", PASSED),
    record("only", "parity", FAILED),
]


def test_outcomes_and_times_by_opset() -> None:
    def of(opset: int, exporter: str, seconds: float, status: Status = PASSED) -> Record:
        return msgspec.structs.replace(
            record(f"elu{seconds}", exporter, status, opset), nodes=1, seconds={"export": seconds}
        )

    found = compare([of(9, "parity", 0.001), of(18, "parity", 0.002), of(18, "parity", 0.004, FAILED)])
    assert [(each.exporter, each.opset, each.counts, each.export_milliseconds) for each in found.by_opset] == [
        ("parity", 9, {PASSED: 1}, 1.0),
        ("parity", 18, {PASSED: 1, FAILED: 1}, 3.0),
    ]


def test_what_is_refused_or_wrong_is_listed_by_its_cause() -> None:
    def refused(name: str, opset: int) -> Record:
        return msgspec.structs.replace(record(name, "parity", UNSUPPORTED, opset), reason="aten::fft: no such operator")

    found = compare([*(refused("fft", opset) for opset in (7, 9)), refused("ifft", 9), record("elu", "parity", PASSED)])
    assert [(each.status, each.cases, each.opsets, each.detail) for each in found.missed] == [
        (UNSUPPORTED, ("fft", "ifft"), (7, 9), "aten::fft: no such operator")
    ]


def test_only_points_that_all_ran_count() -> None:
    found = compare(RECORDS)
    assert (found.common, found.others) == (4, 1)
    assert found.exporters == ("parity", "torch_dynamo")
    assert found.totals == {"parity": {PASSED: 3, UNSUPPORTED: 1}, "torch_dynamo": {PASSED: 3, FAILED: 1}}
    assert found.by_operator == {"parity": {UNSUPPORTED: 1, PASSED: 2}, "torch_dynamo": {PASSED: 2, FAILED: 1}}
    assert [row.name for row in found.rows] == ["celu", "elu", "selu"]
    assert str(found.rows[2].standings["torch_dynamo"]) == "failed 1 of 2"
    assert [point.case for point in found.behind] == ["celu"]


def test_what_could_not_run_is_told_apart_and_decides_nothing() -> None:
    def absent(name: str, exporter: str, opset: int, reason: str = "no CUDA device") -> Record:
        return msgspec.structs.replace(record(name, exporter, Status.ABSENT, opset), reason=reason)

    everywhere = [absent("elu", "parity", 26), absent("elu", "torch_dynamo", 26)]
    found = compare(
        [*RECORDS, *everywhere, record("elu", "parity", PASSED, 9), absent("elu", "torch_dynamo", 9, "old")]
    )
    assert found.absent == {"no CUDA device": 1}
    assert (found.common, found.others) == (5, 1)
    (elu,) = (row for row in found.rows if row.name == "elu")
    assert {exporter: str(standing) for exporter, standing in elu.standings.items()} == {
        "parity": "passed 2",
        "torch_dynamo": "passed 1",
    }
    assert found.by_operator["torch_dynamo"] == {PASSED: 2, FAILED: 1}
    assert compare([absent("elu", "parity", 26)]).rows == ()


def test_the_last_record_of_a_cell_counts() -> None:
    assert compare([*RECORDS, record("celu", "parity", PASSED)]).behind == ()


def test_models_are_compared_in_the_same_runtime_after_the_same_transformations() -> None:
    def of(exporter: str, status: Status, runtime: str, transforms: str = "", ran_on: str = "") -> Record:
        capture = f"trace+{transforms}" if transforms else "trace"
        cell = f"elu-float32-opset18-cpu-{capture}-{runtime}" + (f"-{exporter}" if exporter != "parity" else "")
        return msgspec.structs.replace(
            record("elu", exporter, status), cell=cell, runtime=ran_on or runtime, transforms=transforms
        )

    records = [
        of("parity", PASSED, "onnxruntime"),
        # What it wrote has no kernel in onnxruntime, so that the cell was run elsewhere. It is the same point.
        of("torch_dynamo", PASSED, "onnxruntime", ran_on="onnx.reference"),
        of("parity", FAILED, "tract"),
        of("torch_dynamo", PASSED, "tract"),
        of("parity", PASSED, "tract", "onnxslim"),
    ]
    found = compare(records)
    assert (found.common, found.others) == (2, 1)
    assert [(point.runtime, point.transforms) for point in found.behind] == [("tract", "")]


def test_nodes_of_models_are_compared_where_both_are_right() -> None:
    def of(name: str, exporter: str, nodes: int, status: Status = PASSED, kind: Kind = Kind.MODEL) -> Record:
        return msgspec.structs.replace(record(name, exporter, status), nodes=nodes, kind=kind)

    found = compare(
        [
            *(of("vgg", exporter, 9) for exporter in ("parity", "torch_dynamo")),
            *(of("lstm", exporter, nodes) for exporter, nodes in (("parity", 4), ("torch_dynamo", 5))),
            *(of("gpt", exporter, nodes) for exporter, nodes in (("parity", 7), ("torch_dynamo", 6))),
            of("gpt", "torch_script", 8),
            *(of("swin", exporter, nodes, FAILED) for exporter, nodes in (("parity", 7), ("torch_dynamo", 6))),
            *(
                of("elu", exporter, nodes, kind=Kind.OPERATOR)
                for exporter, nodes in (("parity", 2), ("torch_script", 1))
            ),
        ]
    )
    assert (found.graphs.fewer, found.graphs.as_many) == (1, 1)
    (larger,) = found.graphs.more
    assert (larger.point.case, larger.nodes) == ("gpt", {"parity": 7, "torch_dynamo": 6, "torch_script": 8})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return write_run(Path("runs"), RECORDS)


def test_the_table_is_printed(run: Path) -> None:
    result = CliRunner().invoke(app, ["exporters"])
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines == [
        "exporter opset passed unsupported failed median export",
        "parity 9 1 0 0",
        "parity 18 2 1 0",
        "torch_dynamo 9 1 0 0",
        "torch_dynamo 18 2 0 1",
        "",
        "cells passed unsupported failed",
        "parity 3 1 0",
        "torch_dynamo 3 0 1",
        "",
        "operators and models passed unsupported failed",
        "parity 2 1 0",
        "torch_dynamo 2 0 1",
        "",
        "family operator parity torch_dynamo",
        "activation celu unsupported 1 passed 1",
        "activation selu passed 2 failed 1 of 2",
        "4 cells that every exporter ran; 1 that only some ran, not counted. "
        "1 operators with the same outcome everywhere: --all lists them.",
        "parity: failed: only: 1 cell, opset 18, float32:",
        "parity: unsupported: celu: 1 cell, opset 18, float32:",
        "another exporter passes where parity does not: celu float32 opset 18 static, onnxruntime",
    ]
    assert "elu passed 1 passed 1" in " ".join(CliRunner().invoke(app, ["exporters", "--all"]).output.split())


def test_it_speaks_json_and_refuses_what_is_no_run(run: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["exporters", str(run), "--json"]).output)
    assert found["totals"]["torch_dynamo"] == {"passed": 3, "failed": 1}
    refused = CliRunner().invoke(app, ["exporters", "nowhere"])
    assert (refused.exit_code, refused.output) == (
        2,
        "nowhere is not a run: it has no run.json. `parity run` makes one.\n",
    )


def test_what_a_runtime_got_wrong_is_not_counted_for_an_exporter() -> None:
    wrong = msgspec.structs.replace(record("mish", "parity", FAILED), blame=Blame.RUNTIME)
    changed = msgspec.structs.replace(record("gelu", "parity", FAILED), blame=Blame.TRANSFORMATION, transforms="slim")
    others = [record("mish", "torch_dynamo", PASSED), record("gelu", "torch_dynamo", PASSED)]
    found = compare([*RECORDS, wrong, changed, *others])
    without = compare([*RECORDS, record("gelu", "torch_dynamo", PASSED)])
    assert found.not_theirs == {f"runtime {runtime_asked(wrong)}": 1, "transformation slim": 1}
    assert (found.totals, found.missed, found.behind) == (without.totals, without.missed, without.behind)
