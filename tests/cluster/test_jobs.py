"""Runs that are sent by Ray's Jobs API: what is refused, and how they are followed, without Ray."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.cluster import jobs, on_head
from onnx_parity.harness.cluster.connection import ClusterError
from onnx_parity.harness.cluster.facts import facts
from onnx_parity.harness.cluster.jobs import Jobs
from onnx_parity.harness.cluster.messages import Piece, encoded
from onnx_parity.harness.cluster.mirroring import Copy, CopyError, _line

RUN = _line(Piece("1-1/run.json", 0, b"{}"))


class Client:
    """A Jobs API whose connections break: each entry is what one of them says, an error at its end."""

    def __init__(self, *connections: list[str | Exception], code: int | None = 1) -> None:
        self._connections = list(connections)
        self._code = code

    def get_job_info(self, job: str) -> object:
        if job == "unknown":
            raise RuntimeError("Request failed with status code 404: Job unknown does not exist\n")
        ended = SimpleNamespace(is_terminal=lambda: not self._connections, value="FAILED")
        return SimpleNamespace(status=ended, driver_exit_code=self._code, message="the disk is full\nmore")

    def list_jobs(self) -> list[object]:
        ours = [SimpleNamespace(submission_id=f"parity-{each}", start_time=each) for each in (3, 5, 4)]
        return [SimpleNamespace(submission_id=None, start_time=9), *ours]

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        for each in self._connections.pop(0):
            if isinstance(each, Exception):
                raise each
            yield each


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_PAUSE", 0.0)


def follow(client: Client, runs: Path) -> tuple[int, list[str]]:
    shown: list[str] = []
    return Jobs("http://there", client).follow("a job", Copy(runs), shown.append), shown


def test_the_output_is_shown_and_the_folder_is_filled(tmp_path: Path) -> None:
    client = Client(["the first line\nthe sec", f"ond\n{RUN[:9]}", f"{RUN[9:]}\nthe last"])
    assert follow(client, tmp_path) == (1, ["the first line", "the second", "the last"])
    assert (tmp_path / "1-1" / "run.json").read_bytes() == b"{}"


def test_a_connection_that_breaks_begins_again_and_shows_each_line_once(tmp_path: Path) -> None:
    client = Client(["one\ntwo\n", RuntimeError("closed")], ["one\n"], ["one\ntwo\nthree\n"], code=0)
    assert follow(client, tmp_path) == (0, ["one", "two", "three"])


def test_a_line_of_which_half_has_arrived_is_read_again(tmp_path: Path) -> None:
    client = Client(["one\ntw"], ["one\ntwo\n" + RUN[:30]], ["one\ntwo\n" + RUN[:-9]], [f"one\ntwo\n{RUN}\nthree"])
    assert follow(client, tmp_path) == (1, ["one", "two", "three"])
    assert (tmp_path / "1-1" / "run.json").read_bytes() == b"{}"


def test_a_log_that_stays_cut_is_told(tmp_path: Path) -> None:
    class Cut(Client):
        async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
            yield f"one\n{RUN[:5]}"

    with pytest.raises(ClusterError, match=r"does not answer any more: its log ends within a line\. Once it does"):
        follow(Cut(), tmp_path)


def test_a_folder_of_the_cluster_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept"
    kept.write_text("in the way")
    (tmp_path / on_head.SENDER).write_bytes(encoded(on_head.Sender("parity-1", facts({}), ".", str(kept))))
    assert on_head.main([]) == 2
    assert capsys.readouterr().out == f"--keep {kept} cannot be written to by the cluster's head: Not a directory\n"


def test_connections_may_break_often_while_the_run_goes_on(tmp_path: Path) -> None:
    lines: list[str | Exception] = [f"{number}\n" for number in range(9)]
    broken: list[list[str | Exception]] = [[*lines[: each + 1], OSError("refused")] for each in range(8)]
    assert follow(Client(*broken, lines), tmp_path) == (1, [str(line).strip() for line in lines])


def test_a_cluster_that_does_not_answer_any_more_is_told(tmp_path: Path) -> None:
    broken: list[list[str | Exception]] = [[OSError("refused")] for _ in range(9)]
    client = Client([f"{RUN}\n"], *broken)
    with pytest.raises(ClusterError) as lost:
        follow(client, tmp_path)
    assert str(lost.value) == (
        "the cluster at http://there, which runs a job, does not answer any more: refused. What has arrived is in "
        f"{tmp_path / '1-1'}. Once it does, follow the run again: parity run --follow a job --on http://there"
    )


def test_a_folder_that_cannot_be_written_is_no_broken_connection(tmp_path: Path) -> None:
    (tmp_path / "1-1").write_text("in the way")
    with pytest.raises(CopyError, match=r"cannot be written to: (File exists|Not a directory)$"):
        follow(Client([f"{RUN}\n"]), tmp_path)


def test_a_job_that_did_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"the job a job is FAILED: the disk is full$"):
        follow(Client([], code=None), tmp_path)


def test_the_last_job_is_that_of_parity() -> None:
    assert Jobs("http://there", Client()).newest() == "parity-5"
    with pytest.raises(ClusterError, match=r"^http://there knows no job unknown: Request failed"):
        Jobs("http://there", Client()).follow("unknown", Copy(Path()), print)


@pytest.mark.parametrize("options", [(), ("--follow", "last")], ids=["send", "follow"])
def test_what_is_no_address_is_told(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(jobs.ADDRESS, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.py").write_text("from onnx_parity.harness.case import op\n")

    def ended(on: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["run", *options, "--on", on])
        return result.exit_code, result.stderr

    monkeypatch.setattr(jobs, "find_spec", lambda name: None)
    assert ended("http://10.0.0.5:8265") == (
        2,
        "sending a run to a cluster needs Ray, which is not installed here: pip install 'onnx-parity[ray]'\n",
    )
    monkeypatch.setattr(jobs, "find_spec", lambda name: object() if name == "ray" else None)
    assert ended("jobs") == (2, "no cluster is named. Give --on http://10.0.0.5:8265, or set RAY_API_SERVER_ADDRESS.\n")
    others = ("10.0.0.5:8265", "ray://10.0.0.5:10001") if options else ()
    for address in (*others, "http://10.0.0.5:port"):
        assert ended(address) == (
            2,
            f"--on {address} is no address of Ray's Jobs API: write that of the head's dashboard, such as "
            "http://10.0.0.5:8265, or set RAY_API_SERVER_ADDRESS.\n",
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert ended(address) == (
            2,
            f"nothing answers at {address}, where --on or RAY_API_SERVER_ADDRESS says that a Ray cluster is.\n",
        )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--since", "runs/last"), "--since is for runs of this machine: leave it out."),
        (
            ("--on", "10.0.0.5:6379", "--keep", "/mnt"),
            "--keep is for a run that is sent to a cluster: give its address, --on http://10.0.0.5:8265.",
        ),
        (("--runs", "here"), "--runs is for runs of this machine: leave it out, or give it with --follow."),
        (
            ("--follow", "last", "--tier", "full"),
            "--follow is about a run that was sent: remove --tier. Only --on, --runs, --report, --no-report and --json "
            "may be given with it.",
        ),
    ],
)
def test_options_without_a_meaning_there_are_refused(options: tuple[str, ...], why: str) -> None:
    ended = CliRunner().invoke(app, ["run", "--on", "http://10.0.0.5:8265", *options])
    assert (ended.exit_code, ended.stderr) == (2, f"{why}\n")
