"""A report appears whole or not at all, and replaces nothing but a report."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from onnx_parity.harness.store import RunStoreError
from onnx_parity.reports.publish import ReportError
from onnx_parity.reports.site import write_report
from tests.reports.synthetic_run import PASSING, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", [PASSING])


def test_a_report_is_written_where_it_was_asked_for(run: Path, tmp_path: Path) -> None:
    index = write_report(run, tmp_path / "new" / "report")
    assert index == tmp_path / "new" / "report" / "index.html"
    assert index.is_file()
    assert [path.name for path in index.parent.parent.iterdir()] == ["report"]


def test_an_older_report_is_replaced_as_a_whole(run: Path, tmp_path: Path) -> None:
    index = write_report(run, tmp_path / "report")
    (index.parent / "cases" / "of-a-case-since-removed.html").write_text("old")
    write_report(run, tmp_path / "report")
    assert len(list((index.parent / "cases").iterdir())) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "runs"]


def test_an_empty_folder_may_become_a_report(run: Path, tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    assert write_report(run, tmp_path / "report").is_file()


def test_files_that_are_not_a_report_are_never_replaced(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "index.html").write_text("<h1>My thesis</h1>")
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    assert str(caught.value) == (
        f"{out} holds files that are not a report of onnx-parity, and writing there would replace them. "
        "Choose a folder that is new or empty."
    )
    assert (out / "index.html").read_text() == "<h1>My thesis</h1>"


def test_a_file_is_not_a_folder(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.write_text("")
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    assert str(caught.value) == f"{out} is a file; a report is a folder. Choose another name or remove it."


def test_a_folder_that_cannot_be_made(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "report"
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    said = str(caught.value)
    assert said.startswith(f"the report could not be written to {out}: Not a directory (")
    assert said.endswith("Free space there or choose another folder; nothing was left half-written.")


def test_a_full_disk_leaves_the_older_report_as_it_was(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    before = write_report(run, out).read_text()
    write_text = Path.write_text

    def full_at_the_case_pages(path: Path, data: str, encoding: str) -> int:
        if path.parent.name == "cases":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write_text(path, data, encoding)

    monkeypatch.setattr(Path, "write_text", full_at_the_case_pages)
    with pytest.raises(ReportError, match="No space left on device"):
        write_report(run, out)
    assert (out / "index.html").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "runs"]


def test_a_report_that_cannot_take_the_place_gives_it_back(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    before = write_report(run, out).read_text()
    rename = Path.rename

    def refuses_the_new_one(path: Path, target: Path) -> Path:
        if target == out:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuses_the_new_one)
    with pytest.raises(ReportError, match="Permission denied"):
        write_report(run, out)
    assert (out / "index.html").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "runs"]


def test_what_is_not_a_run_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match=r"is not a run: it has no run\.json"):
        write_report(tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()
