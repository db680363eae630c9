"""`warnings.toml`: how it is read, and the cells that warn of something else than it says, or of nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from onnx_parity.harness.axes import Dtype, Selection, Tier
from onnx_parity.harness.expecting import warned
from onnx_parity.harness.expecting.expectations import ExpectationError
from onnx_parity.harness.judging.outcome import blank_record
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.op_cases import programs
from tests.records import RECORD

_FILE = """tier = "default"
[activation]
"elu dynamic" = ["batch != 1", "batch > 2"]
"elu static" = "writes to x"
"""
WRITES = "the program writes to x. An ONNX model keeps no state from one run to the next"


def cell(*texts: str, **more: object) -> Record:
    named = {"family": "activation", "case": "elu", "shapes": "static", "capture": "trace", "exporter": "parity"}
    return msgspec.structs.replace(RECORD, **{**named, "status": Status.PASSED, "warned": texts, **more})


def written(folder: Path, text: str = _FILE) -> Path:
    (folder / warned.FILE).write_text(text, "utf-8")
    warned.load_once.cache_clear()
    return folder


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (cell(), "warnings.toml says that the exporter warns of 'writes to x', and it does not"),
        (cell(WRITES, "a branch"), "the exporter warns, and warnings.toml does not say so: a branch"),
        (cell("on batch != 1", shapes="dynamic"), "warnings.toml says that the exporter warns of 'batch > 2', and it"),
        (cell(WRITES, case="elu_other"), f"the exporter warns, and warnings.toml does not say so: {WRITES}"),
    ],
    ids=["lost", "new", "one of two", "of another case"],
)
def test_a_warning_that_is_lost_or_new_fails(tmp_path: Path, record: Record, reason: str) -> None:
    judged = warned.judge_record(record, written(tmp_path), lambda tier: True)
    assert (judged.status, judged.stage, judged.blame) == (Status.FAILED, Stage.EXPORT, Blame.EXPORTER)
    assert judged.reason.startswith(reason)


@pytest.mark.parametrize(
    ("record", "in_tier"),
    [
        (cell(WRITES), True),
        (cell("on batch != 1", "on batch > 2", shapes="dynamic"), True),
        (cell(), False),
        (cell(exporter="torch_dynamo"), True),
        (cell(capture="script"), True),
        (cell(status=Status.FAILED), True),
    ],
    ids=["as listed", "both", "of another tier", "of a peer", "of a script", "failed"],
)
def test_others_stay_as_they_are(tmp_path: Path, record: Record, in_tier: bool) -> None:
    assert warned.judge_record(record, written(tmp_path), lambda tier: in_tier) is record


def test_without_a_file_nothing_is_judged(tmp_path: Path) -> None:
    record = cell("anything")
    assert warned.judge_record(record, tmp_path, lambda tier: True) is record


@pytest.mark.parametrize(
    "text", ['tier = "some"', 'tier = "smoke"\n[activation]\nelu = 3', 'tier = "smoke"\nelu = "x"']
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExpectationError, match=r"warnings\.toml"):
        warned.load(written(tmp_path, text) / warned.FILE)


def test_a_cell_notes_what_the_exporter_warns_of() -> None:
    bench, selection = Bench(0), Selection(tier=Tier.SMOKE, dtypes=(Dtype.FLOAT32,))
    for each in list(cells_of("write_input", programs.write_input, selection))[:2]:
        # The second one has the capture of the first.
        (text,) = bench.run(each).onto(blank_record(each, "", "", worker="")).warned
        assert text.startswith("the program writes to x0, x1. An ONNX model")
