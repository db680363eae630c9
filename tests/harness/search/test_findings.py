"""Findings: what is written of each, what became of it, and the text of an issue."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.search.ledger import (
    Finding,
    FindingError,
    Now,
    issue_text,
    read,
    read_findings,
    rerun,
    slug,
    write,
    write_outcome,
)

FINDING = Finding(
    title='A "quoted" defect', culprit="onnxruntime", fault="error", defect="It is\nsaid.", exit=1, prints="got 1\n"
)


@pytest.mark.parametrize(
    ("script", "now"),
    [
        ("print('got 1')\nraise SystemExit(1)", Now.THERE),
        ("print('got 2')\nraise SystemExit(1)", Now.CHANGED),
        ("import os; os.abort()", Now.CHANGED),
        ("print('right')", Now.GONE),
        ("import no_such_module_at_all", Now.UNKNOWN),
        ("print(\"ModuleNotFoundError No module named 'no_such.part'\")\nraise SystemExit(1)", Now.UNKNOWN),
    ],
)
def test_what_became_of_a_finding(tmp_path: Path, script: str, now: Now) -> None:
    write(tmp_path / "it", FINDING, script)
    assert read(tmp_path / "it") == FINDING
    assert rerun(tmp_path / "it", FINDING).now is now


def test_a_new_state_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "it", FINDING, "print('got 2')\nraise SystemExit(5)")
    kept = write_outcome(tmp_path / "it", FINDING, rerun(tmp_path / "it", FINDING))
    assert (kept.exit, kept.prints.strip()) == (5, "got 2")
    assert rerun(tmp_path / "it", read(tmp_path / "it")).now is Now.THERE


def test_the_text_of_an_issue(tmp_path: Path) -> None:
    write(tmp_path / "it", FINDING, "print(1)\n")
    text = issue_text(tmp_path / "it", FINDING)
    assert text.startswith('# A "quoted" defect\n\nIt is\nsaid.\n\nTo reproduce:\n\n```python\nprint(1)\n```')


def test_a_damaged_finding_is_named(tmp_path: Path) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "finding.toml").write_text("title = 3")
    with pytest.raises(FindingError, match=r"it/finding\.toml cannot be read"):
        read_findings(tmp_path)


def test_names_of_findings() -> None:
    assert slug("onnxruntime: TopK, of 3!") == "onnxruntime_topk_of_3"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--folder", "nowhere"], "nowhere: there is no such folder."),
        (["onnxruntim_max_pool"], "has no finding 'onnxruntim_max_pool'. Did you mean onnxruntime_max_pool?"),
        (["--culprit", "onnxruntim"], "has the culprit 'onnxruntim'. There are onnxruntime."),
        (["--fault", "bug"], "has the fault 'bug'. There are error."),
        (["--unread", "--culprit", "onnx*"], "has findings, but none that meets all of these conditions."),
        (["--keep"], "give --run as well"),
        (["--issue", "--run"], "runs nothing: remove --run"),
    ],
)
def test_what_no_finding_meets_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    write(tmp_path / "onnxruntime_max_pool", msgspec.structs.replace(FINDING, read=True), "print(1)\n")
    folder = [] if "--folder" in arguments else ["--folder", str(tmp_path)]
    result = CliRunner().invoke(app, ["findings", *folder, *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
