"""Columns of a run: the very records, for this project and other tools; what is read from them is what lines say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness import cli, columnar, store
from onnx_parity.harness.gate.policy import Policy
from onnx_parity.harness.gate.verdict import judge
from onnx_parity.harness.record import SCHEMA_VERSION, Blame, Metrics, OnnxUse, Record, RunEnd, Stage, Status
from onnx_parity.harness.results.merging import merge
from onnx_parity.harness.results.query import QueryError, parse
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import (
    RecordWriter,
    forget_end,
    read_columns,
    read_records,
    write_end,
)
from tests.records import INFO, RECORD, write_run

WHOLE = RunEnd("2026-01-31T10:16:00+00:00", whole=True)
METRICS = Metrics(1e-7, None, 0.5, 1.0, 2.0, 12.0, 1.2e-6, 0, (0, 1), None, 1.0)
RECORDS = [
    replace(
        RECORD, cell="b", case="b", metrics=METRICS, seconds={"export": 0.25, "a stage of tomorrow": 1.0},
        aten=("aten::elu", "aten::add"), onnx=(OnnxUse("Elu", 6, 2), OnnxUse("Add", 7)), nodes=3,
    ),
    replace(RECORD, cell="a", case="a", opset=7, dtype="größe", calls=("torch.nn.functional.elu",), source="f00"),
    replace(
        RECORD, cell="c", case="a", opset=13, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER,
        reason="off by 0.5", message="\x1b[31m two\nlines \U0001f642", began=12.5, memory=700, carried="earlier",
    ),
    replace(RECORD, cell="d", case="a", opset=9, status=Status.ABSENT, stage=Stage.BUILD, export_cpu=0.5),
]  # fmt: skip


@pytest.fixture(autouse=True)
def every_run_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WORTH_COLUMNS", 0)


def run_of(root: Path, records: Sequence[Record] = RECORDS, name: str = "run", **info: object) -> Path:
    return write_run(root, records, replace(INFO, id=name, schema_version=SCHEMA_VERSION, **info), WHOLE)


def by_cell(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.cell)


def test_columns_hold_the_very_records_by_case(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    columns = read_columns(run)
    assert columns is not None and len(columns) == 4
    assert [record.cell for record in columns.records()] == ["d", "c", "a", "b"]
    assert by_cell(list(read_records(run))) == by_cell(RECORDS)
    assert [record.cell for record in columns.records_at([1, 3])] == ["c", "b"]


def test_row_groups_hold_declarations_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the records of declarations are mixed, and in whatever parts they are read, merged or not."""
    monkeypatch.setattr(columnar, "_ROWS_AT_A_TIME", 3)
    monkeypatch.setattr(columnar, "_ROWS_OF_A_GROUP", 4)
    mixed = [
        replace(
            RECORDS[n % 4], cell=f"c{n:02}", name=f"n{n * 7 % 5}", case=f"n{n * 7 % 5}[{n % 2}]", family=f"f{n % 2}",
            # A stage that only one of the row groups has.
            seconds={"another": 1.0} if n == 7 else {"export": n / 8},
        )
        for n in range(23)
    ]  # fmt: skip
    ordered = sorted(mixed, key=lambda record: (record.family, record.name, record.case, record.dtype, record.opset))
    whole = run_of(tmp_path, mixed, "whole")
    parts = [run_of(tmp_path, mixed[:9], "one"), run_of(tmp_path, mixed[9:], "other")]
    for run in (whole, merge(parts, tmp_path)):
        columns = read_columns(run)
        assert columns is not None
        found = list(columns.records())
        assert by_cell(found) == by_cell(mixed)
        declared = [(record.family, record.name, record.case) for record in found]
        assert declared == [(record.family, record.name, record.case) for record in ordered]
        file = pq.ParquetFile(run / "records.parquet")
        # A group begins with a declaration.
        assert file.num_row_groups > 5
        assert set(columns.spans()) == {(record.kind, record.family, record.name) for record in mixed}
        assert [columns.rows(begin, end).num_rows for begin, end in columns.spans().values()] == [
            end - begin for begin, end in columns.spans().values()
        ]


def test_other_tools_read_the_columns(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    list(read_records(run))
    table = pq.read_table(run / "records.parquet", filters=[("status", "==", "failed")])
    assert table.column("reason").to_pylist() == ["off by 0.5"]
    assert table.schema.metadata[b"onnx_parity.schema_version"] == str(SCHEMA_VERSION).encode()


def test_a_run_without_records_has_columns(tmp_path: Path) -> None:
    assert list(read_records(run_of(tmp_path, []))) == []


def test_columns_that_are_outdated_or_broken_are_made_again(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    list(read_records(run))
    writer = RecordWriter(run, "gw1")
    writer.append(replace(RECORDS[0], began=99.0, status=Status.FAILED))
    writer.close()
    assert {record.cell: record.status for record in read_records(run)}["b"] is Status.FAILED
    (run / "records.parquet").write_bytes(b"PAR1, cut short")
    assert len(list(read_records(run))) == 4


def test_a_run_that_goes_on_is_read_from_its_lines(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    forget_end(run)
    assert read_columns(run) is None
    assert list(read_records(run)) == RECORDS


def test_of_several_records_of_a_cell_the_latest_counts(tmp_path: Path) -> None:
    early, late = (replace(RECORD, began=began, reason=str(began)) for began in (1.0, 2.0))
    assert list(read_records(run_of(tmp_path, [late, early, RECORDS[1]]))) == [RECORDS[1], late]


@pytest.mark.parametrize(
    "condition",
    [
        'status == "failed"',
        "opset < 11 and metrics.headroom > 2",
        'seconds["export"] > 0.1 or export_cpu > 0.1',
        '"aten::elu" in aten',
        "metrics.max_rel < 1 or blame == 'exporter'",
        "metrics == None and not seconds",
        "like(cell, 'a*') or matches(reason, 'off by .*')",
        "7 < opset <= 13 and seconds['nothing'] is None",
        "blame in ['exporter', 'runtime'] or nodes * 2 == 6",
        "True",
    ],
)
def test_a_query_finds_the_same_in_columns_and_in_lines(tmp_path: Path, condition: str) -> None:
    query = parse(condition)
    columns = read_columns(run_of(tmp_path))
    assert columns is not None
    found = list(columns.records_at(query.rows(columns)))
    assert by_cell(found) == by_cell(list(query.of(RECORDS)))
    assert found


@pytest.mark.parametrize("condition", ["opset < 'a'", "case + 1 == 2", "metrics.headroom / 0 > 1"])
def test_what_cannot_be_evaluated_names_a_cell(tmp_path: Path, condition: str) -> None:
    columns = read_columns(run_of(tmp_path))
    assert columns is not None
    with pytest.raises(QueryError, match=r"when evaluated for [a-d]\. Check the types"):
        parse(condition).rows(columns)


def test_a_gate_judges_columns_as_it_judges_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exported(number: int, seconds: float, **changes: object) -> Record:
        times = {"export": seconds} if seconds else {}
        record = replace(RECORD, cell=f"n{number}", case=f"n{number}", seconds=times, export_cpu=seconds)
        return replace(record, **changes)

    close, far = (replace(METRICS, headroom=headroom) for headroom in (1.5, 900.0))
    before = [
        *(exported(n, 1.0) for n in range(8)),
        *RECORDS,
        replace(RECORD, cell="gone"),
        exported(20, 1, metrics=far),
        exported(21, 1, status=Status.FAILED, stage=Stage.LOAD),
        exported(22, 1, status=Status.FAILED, blame=Blame.RUNTIME),
    ]
    now = [
        *(exported(n, 9.0 if n == 3 else 1.0) for n in range(8)),
        replace(RECORDS[0], status=Status.FAILED, blame=Blame.RUNTIME),
        replace(RECORDS[2], status=Status.PASSED, carried=""),
        replace(RECORDS[1], carried="earlier"),
        replace(RECORDS[3], stage=Stage.EXPORT, status=Status.UNSUPPORTED),
        exported(20, 1, metrics=close),
        exported(21, 1, status=Status.FAILED, stage=Stage.RUN),
        exported(22, 1, status=Status.FAILED, blame=Blame.EXPORTER),
        replace(RECORD, cell="new", status=Status.FAILED),
    ]  # fmt: skip
    runs = run_of(tmp_path, before, "before"), run_of(tmp_path, now, "now")
    of_columns = judge(*runs, Policy())
    monkeypatch.setattr(store, "_WORTH_COLUMNS", 1 << 40)
    of_lines = judge(*runs, Policy())
    assert sorted(of_columns.findings, key=repr) == sorted(of_lines.findings, key=repr)
    assert (of_columns.counts, of_columns.actions) == (of_lines.counts, of_lines.actions)
    assert len({finding.kind for finding in of_lines.findings}) == 6
    # Whether an export is slower cannot be decided without measuring it again.
    assert of_columns.undecided == of_lines.undecided != []


def test_merged_runs_have_the_columns_of_both(tmp_path: Path) -> None:
    one, other = run_of(tmp_path, RECORDS[:2], "one"), run_of(tmp_path, RECORDS[2:], "other")
    merged = merge([one, other], tmp_path)
    assert (merged / "records.parquet").is_file()
    assert by_cell(list(read_records(merged))) == by_cell(RECORDS)


def test_where_a_cell_is_in_several_merged_runs_the_lines_decide(tmp_path: Path) -> None:
    later = replace(RECORDS[0], began=5.0, reason="later")
    one, other = run_of(tmp_path, RECORDS, "one"), run_of(tmp_path, [later], "other")
    merged = merge([one, other], tmp_path)
    assert not (merged / "records.parquet").exists()
    assert {record.cell: record for record in read_records(merged)}["b"] == later


def test_a_query_writes_columns_of_any_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WORTH_COLUMNS", 1 << 40)
    run, file = run_of(tmp_path), tmp_path / "failed.parquet"
    arguments = ["query", 'status == "failed"', "--run", str(run), "--parquet"]
    assert CliRunner().invoke(cli.app, [*arguments, str(file)]).exit_code == 0
    assert pq.read_table(file).column("cell").to_pylist() == ["c"]
    refused = CliRunner().invoke(cli.app, [*arguments, str(tmp_path / "nowhere" / "failed.parquet")])
    assert refused.exit_code == 2
    assert "cannot be written: No such file or directory. Name a file in a folder that exists." in " ".join(
        refused.output.split()
    )


def test_a_query_overwrites_columns_and_nothing_else(tmp_path: Path) -> None:
    run, columns, other = run_of(tmp_path), tmp_path / "failed.parquet", tmp_path / "pyproject.toml"
    arguments = ["query", 'status == "failed"', "--run", str(run), "--parquet"]
    for _ in range(2):
        assert CliRunner().invoke(cli.app, [*arguments, str(columns)]).exit_code == 0
    other.write_text("[project]")
    refused = CliRunner().invoke(cli.app, [*arguments, str(other)])
    assert refused.exit_code == 2
    assert "exists and is no Parquet file" in " ".join(refused.output.split())
    assert other.read_text() == "[project]"


@pytest.mark.parametrize("what", ["a line", "the end", "a lost line"])
def test_a_damaged_run_is_read_from_its_lines(tmp_path: Path, what: str) -> None:
    run = run_of(tmp_path)
    write_end(run, replace(WHOLE, cells=4))
    lines = run / "records-gw0.jsonl"
    if what == "a line":
        lines.write_bytes(lines.read_bytes().replace(b'"opset":13', b'"opset":14'))
    elif what == "the end":
        (run / "end.json").write_text("{")
    else:
        lines.write_bytes(b"".join(lines.read_bytes().splitlines(keepends=True)[1:]))
    assert read_columns(run) is None
    assert "is damaged" in read_records(run).damage


def test_columns_with_a_changed_byte_are_not_read(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    list(read_records(run))
    columns = run / "records.parquet"
    content = columns.read_bytes()
    at = content.index(b"elu", 4)
    columns.write_bytes(content[:at] + b"ElU" + content[at + 3 :])
    with pytest.raises(RunStoreError, match=r"records\.parquet is damaged: .* Delete it: it is made again"):
        read_records(run)


def test_a_gate_names_edited_declarations_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [replace(RECORD, cell=f"n{n}", name=f"n{n % 3}", source=str(n % 3)) for n in range(6)]
    now = [replace(record, source="new" if record.name == "n1" else record.source) for record in before]
    runs = run_of(tmp_path, before, "before"), run_of(tmp_path, [*now, replace(now[0], cell="new")], "now")
    assert judge(*runs, Policy()).environment == ["1 declaration differs: n1"]
    monkeypatch.setattr(store, "_WORTH_COLUMNS", 1 << 40)
    assert judge(*runs, Policy()).environment == ["1 declaration differs: n1"]


def test_options_and_refusals_are_columns_too(tmp_path: Path) -> None:
    refused = replace(RECORD, refused=True, options=("--parity-seed=3",))
    assert list(read_records(run_of(tmp_path, [refused, RECORDS[0]]))) == [RECORDS[0], refused]
