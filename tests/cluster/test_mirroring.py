"""A folder of runs, said in lines of text while it is written, and copied from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onnx_parity.harness.cluster.messages import Piece
from onnx_parity.harness.cluster.mirroring import Copy, CopyError, Mirror, _line

RUN = "20260131-101500-4711"


def write(path: Path, content: bytes, *, add: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if add else "wb") as file:
        file.write(content)


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_a_run_is_copied_while_it_is_written(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    here.mkdir()
    run = there / RUN
    mirror, copy = Mirror(there), Copy(here)
    said: list[str] = []

    def say() -> list[str]:
        lines = list(mirror.lines())
        for line in lines:
            copy.take(line)
        said.extend(lines)
        return lines

    assert say() == []
    write(run / "run.json", b"{}")
    write(run / "records-main.jsonl", b"one\ntwo\nthr")
    assert len(say()) == 2
    assert content_of(here) == {f"{RUN}/run.json": b"{}", f"{RUN}/records-main.jsonl": b"one\ntwo\n"}
    assert os.readlink(here / "last") == RUN
    assert copy.last == here / RUN
    assert say() == [], "a line that is being written is not said"
    write(run / "records-main.jsonl", b"ee\n", add=True)
    write(run / "bundles" / "a" / "model.onnx", bytes(range(256)) * 2000)
    write(run / "end.json", b"the first end")
    assert len(say()) == 4
    aside = run / ".end"
    write(aside, b"an end")
    aside.replace(run / "end.json")
    write(run / "in-flight-main", b"of this machine")
    assert len(say()) == 1
    left_out = {f"{RUN}/in-flight-main"}
    assert content_of(here) == {name: data for name, data in content_of(there).items() if name not in left_out}
    for line in said:
        copy.take(line)
    assert content_of(here)[f"{RUN}/end.json"] == b"an end", "what was said can be taken again"


def test_a_file_that_is_written_anew_is_said_from_its_beginning(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    here.mkdir()
    mirror, copy = Mirror(there), Copy(here)
    for content in (b"a short text", b"another, which is longer"):
        write(there / RUN / "bundles" / "a" / "README", content)
        for line in mirror.lines():
            copy.take(line)
        assert content_of(here) == content_of(there)


def test_a_run_that_was_continued_here_is_not_written_over(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    line = _line(Piece(f"{RUN}/records-main.jsonl", 0, b"one\ntwo\n"))
    write(tmp_path / RUN / "records-main.jsonl", b"one\nthree\n")
    with pytest.raises(CopyError, match="has other records than the job has sent: the run was continued here"):
        copy.take(line)
    assert (tmp_path / RUN / "records-main.jsonl").read_bytes() == b"one\nthree\n"


@pytest.mark.parametrize("path", ["../outside.txt", "/tmp/parity-outside.txt"])
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    with pytest.raises(CopyError, match="lies outside of its run"):
        Copy(folder).take(_line(Piece(path, 0, b"x")))
    assert not (tmp_path / "outside.txt").exists()
