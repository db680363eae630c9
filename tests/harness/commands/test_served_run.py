"""`parity run --serve`: the report of the run that has begun is served, by a process that ends with the run."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from onnx_parity.harness.commands import run as command

PROCESS = 123


class Server:
    """A process that serves, as far as the command knows."""

    def __init__(self, words: list[str], **options: Any) -> None:
        self.words = words
        self.signals: list[int] = []
        begun.set()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def wait(self) -> int:
        return 0


begun = threading.Event()


def test_the_report_is_served_from_the_first_record_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[Server] = []

    def start(words: list[str], **options: Any) -> Server:
        servers.append(Server(words, **options))
        return servers[-1]

    begun.clear()
    monkeypatch.setattr(command, "_LOOK", 0.01)
    monkeypatch.setattr(subprocess, "Popen", start)
    with command._served(tmp_path) as begin:
        begin(PROCESS)
        for name in (f"20260131-101500-{PROCESS + 1}", f"20260131-101500-{PROCESS}"):
            (tmp_path / name).mkdir()
            assert not begun.wait(0.05)
        (tmp_path / name / "records-main.jsonl").write_text("{}\n")
        assert begun.wait(10)
    assert [server.words[server.words.index("report") :] for server in servers] == [
        ["report", str(tmp_path / name), "--serve", "--port", "0"]
    ]
    assert servers[0].signals == [signal.SIGINT]
