"""The folder of a report: a report appears as a whole or not at all, and replaces only files of earlier reports."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.reports import publish
from onnx_parity.reports.publish import FILE_LIST, ReportError
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.synthetic_run import PASSING

MARKED = '<!doctype html><meta name="generator" content="onnx-parity">'
#: A declaration of so many cells has a piece of the data for itself.
OTHER_CASES = [replace(PASSING, cell=f"relu-{n}", case="relu", name="relu", opset=n) for n in range(7, 1100)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", [PASSING])


@pytest.fixture
def run_of_two_cases(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "runs-of-two", [PASSING, *OTHER_CASES, replace(PASSING, cell="tanh", case="tanh", name="tanh")]
    )


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def listed(folder: Path) -> list[str]:
    names: list[str] = msgspec.json.decode((folder / FILE_LIST).read_bytes())["files"]
    return names


def make_earlier_report(out: Path, run: Path) -> None:
    """A report as versions without a list of files left it."""
    write_report(run, out)
    (out / FILE_LIST).unlink()


def test_a_report_is_written_to_the_requested_folder(run: Path, tmp_path: Path) -> None:
    index = write_report(run, tmp_path / "new" / "report")
    assert index == tmp_path / "new" / "report" / "index.html"
    assert index.is_file()
    assert [path.name for path in index.parent.parent.iterdir()] == ["report"]


def test_the_list_names_every_file_of_the_report(run: Path, tmp_path: Path) -> None:
    folder = write_report(run, tmp_path / "report").parent
    assert files(folder) == sorted([*listed(folder), FILE_LIST])
    assert all(publish._OUR_FILES.fullmatch(file) for file in listed(folder))


def test_pages_of_cases_that_are_gone_are_removed(run_of_two_cases: Path, run: Path, tmp_path: Path) -> None:
    folder = write_report(run_of_two_cases, tmp_path / "report").parent
    assert len(list((folder / "data").glob("cases-*"))) == 2
    write_report(run, folder)
    assert len(list((folder / "data").glob("cases-*"))) == 1
    assert files(folder) == sorted([*listed(folder), FILE_LIST])


@pytest.mark.parametrize("earlier_version", [False, True])
def test_files_that_no_report_wrote_stay(
    run_of_two_cases: Path, run: Path, tmp_path: Path, earlier_version: bool
) -> None:
    """A checkout for published pages has a `.git` and a `CNAME` beside the report."""
    out = tmp_path / "pages"
    if earlier_version:
        make_earlier_report(out, run_of_two_cases)
    else:
        write_report(run_of_two_cases, out)
    foreign = {
        ".git/HEAD": "ref: refs/heads/gh-pages",
        "CNAME": "parity.example.org",
        "cases/notes.html": "<h1>Notes</h1>",
        "cases/notes-0123abcd.html": "<h1>Named like a page, without its mark</h1>",
        "static/own.css": "body {}",
        "history/2025/index.html": MARKED,
    }
    for name, text in foreign.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    write_report(run, out)
    assert {name: (out / name).read_text() for name in foreign} == foreign
    assert files(out) == sorted([*listed(out), FILE_LIST, *foreign])


def test_a_list_from_elsewhere_removes_nothing_but_pages(run: Path, tmp_path: Path) -> None:
    out = write_report(run, tmp_path / "report").parent
    (tmp_path / "secret").write_text("precious")
    (out / "CNAME").write_text("precious")
    names = ["../secret", str(tmp_path / "secret"), "CNAME", "cases/../CNAME", "", "\0", *listed(out)]
    (out / FILE_LIST).write_bytes(msgspec.json.encode({"generator": "onnx-parity", "files": names}))
    write_report(run, out)
    assert (tmp_path / "secret").read_text() == (out / "CNAME").read_text() == "precious"


def test_nothing_is_written_or_removed_through_a_link(run: Path, tmp_path: Path) -> None:
    out = write_report(run, tmp_path / "report").parent
    (out / "data").rename(tmp_path / "elsewhere")
    (out / "data").symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path / "elsewhere")
    with pytest.raises(ReportError, match="exists, and was not written by a report"):
        write_report(run, out)
    assert files(tmp_path / "elsewhere") == before


def test_the_working_folder_can_be_replaced_and_stays_the_same_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_report(run, tmp_path / "report").parent
    monkeypatch.chdir(out)
    before = out.stat().st_ino
    assert write_report(run, Path()) == Path("index.html")
    assert out.stat().st_ino == before
    assert sorted(os.listdir()) == sorted(os.listdir(out))


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
        f"The report cannot be written to {out}: the folder contains files, but no report of onnx-parity. Choose a "
        "folder that is new or empty, or one with an earlier report, which the new one replaces."
    )
    assert files(out) == ["index.html"]
    assert (out / "index.html").read_text() == "<h1>My thesis</h1>"


@pytest.mark.parametrize("name", ["traced.html", FILE_LIST])
def test_a_file_in_the_way_is_not_replaced(run: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "report"
    make_earlier_report(out, run)
    (out / name).write_text("somebody's own")
    before = {file: (out / file).read_bytes() for file in files(out)}
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    assert str(caught.value) == (
        f"The report cannot be written to {out}: {out / name} exists, and was not written by a report. Move that "
        "file, or choose another folder with --out. Nothing was changed."
    )
    assert {file: (out / file).read_bytes() for file in files(out)} == before


def test_a_file_is_not_a_folder(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.write_text("")
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    assert str(caught.value) == (
        f"The report cannot be written to {out}: this is a file, but a report is a folder. Choose another name, or "
        "remove the file."
    )


def test_a_folder_that_cannot_be_made(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "report"
    with pytest.raises(ReportError) as caught:
        write_report(run, out)
    message = str(caught.value)
    assert message.startswith(f"The report could not be written to {out}: Not a directory (")
    assert message.endswith(
        "Free space there, or choose another folder with --out. The files that were there before are unchanged."
    )


@pytest.mark.parametrize("is_new", [False, True])
def test_a_full_disk_leaves_everything_as_it_was(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    out = tmp_path / "report"
    if not is_new:
        write_report(run, out)
    before = files(tmp_path)
    write_text = Path.write_text

    def full_at_the_data(path: Path, data: str, encoding: str) -> int:
        if path.parent.name == "data":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write_text(path, data, encoding)

    monkeypatch.setattr(Path, "write_text", full_at_the_data)
    with pytest.raises(ReportError, match="No space left on device"):
        write_report(run, out)
    assert files(tmp_path) == before
    assert out.exists() is not is_new


def test_a_report_that_cannot_be_moved_to_its_place_puts_the_earlier_one_back(
    run_of_two_cases: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_report(run, tmp_path / "report").parent
    before = {file: (out / file).read_bytes() for file in files(out)}
    rename = Path.rename

    def refuses_the_new_index(path: Path, target: Path) -> Path:
        if target == out / "index.html" and path.parent.name == "pages":
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuses_the_new_index)
    with pytest.raises(ReportError, match="Permission denied"):
        write_report(run_of_two_cases, out)
    assert {file: (out / file).read_bytes() for file in files(out)} == before


def test_what_a_killed_report_left_is_removed_by_the_next_one(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom onnx_parity.reports.publish import publish\n"
        "with publish(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'index.html').write_text('half')\n    print('writing', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.wait()
    process.stdout.close()
    assert [path.name.rpartition("-")[0] for path in out.iterdir()] == [".onnx-parity-report"]
    write_report(run, out)
    assert files(out) == sorted([*listed(out), FILE_LIST])
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_a_report_that_was_killed_while_its_pages_were_moved_is_replaced(
    run_of_two_cases: Path, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom onnx_parity.reports import publish, site\n"
        "move = publish._moved\n"
        "def is_killed(source, target):\n    if target.name == 'index.html':\n        os._exit(9)\n"
        "    return move(source, target)\n"
        "publish._moved = is_killed\nsite.write_report(*map(Path, sys.argv[1:]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(run_of_two_cases), str(out)], check=False)
    assert killed.returncode == 9
    assert not (out / "index.html").exists()
    assert len(list((out / "data").glob("cases-*"))) == 2
    write_report(run, out)
    assert files(out) == sorted([*listed(out), FILE_LIST])


def test_what_a_killed_report_of_an_earlier_version_left_beside_is_removed(run: Path, tmp_path: Path) -> None:
    """Those versions moved the whole earlier report aside: what was not theirs in it stays."""
    out = tmp_path / "report"
    make_earlier_report(tmp_path / ".report-0123abcd", run)
    make_earlier_report(tmp_path / ".report-0123abcd-old", run)
    (tmp_path / ".report-0123abcd-old" / "CNAME").write_text("parity.example.org")
    (tmp_path / ".report-settings").mkdir()
    (tmp_path / ".report-4567cdef").mkdir()
    (tmp_path / ".report-4567cdef" / "index.html").write_text("somebody's own")
    write_report(run, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".report-0123abcd-old", ".report-4567cdef", ".report-settings", "report", "runs",
    ]  # fmt: skip
    assert files(tmp_path / ".report-0123abcd-old") == ["CNAME"]


def test_two_reports_at_once_are_written_one_after_the_other(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    script = (
        "import sys\nfrom pathlib import Path\nfrom onnx_parity.reports.site import write_report\n"
        "write_report(*map(Path, sys.argv[1:]))"
    )
    with publish.publish(out) as folder:
        other = subprocess.Popen([sys.executable, "-c", script, str(run), str(out)])
        (folder / "index.html").write_text(MARKED)
        time.sleep(1)
        assert other.poll() is None
    assert other.wait() == 0
    assert files(out) == sorted([*listed(out), FILE_LIST])
    assert "1 of the 1 cell that ran passed" in (out / "index.html").read_text()


def test_what_is_not_a_run_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match=r"is not a run: it has no run\.json"):
        write_report(tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()
