"""Child processes that are spawned or forked: messages, and all ways in which one ends before it answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError, Waiting

_CHILD = """
import os, signal, sys, time
from onnx_parity.harness.running.channel import Channel, die_with
die_with(os.getppid())
channel = Channel(0, int(sys.argv[1]))
while True:
    try:
        message = channel.receive()
    except EOFError:
        break
    if message == b"die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if message == b"leave":
        sys.exit(3)
    if message == b"sleep":
        time.sleep(600)
    if message == b"grow":
        kept = b"x" * (300 << 20)
        time.sleep(600)
    print("an exporter prints this")
    channel.send(message * 2)
"""

#: Spawns a child, writes its number, and waits.
_OWNER = """
import sys, time
from pathlib import Path
from onnx_parity.harness.running.child_process import ChildProcess
child = ChildProcess.spawned([sys.executable, "-c", sys.argv[1]], sys.stderr.buffer)
child.send(b"x")
child.receive(lambda: None)
child.send(b"sleep")
aside = Path(sys.argv[2] + ".tmp")
aside.write_text(str(child._process.pid))
aside.rename(sys.argv[2])
time.sleep(600)
"""


def serve(channel: Channel) -> None:
    while True:
        message = channel.receive()
        if message == b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        if message == b"leave":
            sys.exit(3)
        if message == b"sleep":
            time.sleep(600)
        channel.send(message * 2)


def spawned(folder: Path) -> ChildProcess:
    with (folder / "stderr").open("wb") as stderr:
        return ChildProcess.spawned([sys.executable, "-c", _CHILD], stderr)


def forked(folder: Path) -> ChildProcess:
    return ChildProcess.forked(serve, folder / "stderr")


@pytest.fixture(params=[spawned, forked], ids=["spawned", "forked"])
def child(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChildProcess]:
    start: Callable[[Path], ChildProcess] = request.param
    child = start(tmp_path)
    yield child
    child.kill()


def asked(child: ChildProcess, message: bytes, look: Callable[[], None] = lambda: None) -> bytes:
    child.send(message)
    return child.receive(look)


def test_messages_go_in_and_come_out(child: ChildProcess) -> None:
    # A pipe holds 64 KiB.
    for message in (b"ab", b"", os.urandom(1 << 15), os.urandom(1 << 20)):
        assert asked(child, message) == message * 2
    assert child.end() == "exited with 0"


def test_an_exit_is_reported(child: ChildProcess) -> None:
    with pytest.raises(ProcessEndedError, match=r"^exited with 3$"):
        asked(child, b"leave")


def test_a_signal_is_reported(child: ChildProcess) -> None:
    with pytest.raises(ProcessEndedError, match=r"^was killed by SIG(SEGV|KILL \(as the system does .*\))$"):
        asked(child, b"die")


def test_a_limit_of_time_ends_it(child: ChildProcess) -> None:
    assert asked(child, b"a") == b"aa"
    start = time.monotonic()
    with pytest.raises(ProcessEndedError, match=r"^took too long$"):
        asked(child, b"sleep", lambda: child.limit_time(0.2, start, "took too long"))
    assert time.monotonic() - start < 30


def test_time_in_which_the_owner_is_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100.0, 100.1, 102.0, 1302.0, 1303.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    waiting = Waiting()
    assert [waiting.since() for _ in range(4)] == [100.0, 100.0, 1300.0, 1300.0]


def test_a_limit_of_memory_ends_it(tmp_path: Path) -> None:
    child = spawned(tmp_path)
    assert asked(child, b"a") == b"aa"
    with pytest.raises(ProcessEndedError, match=r"^took more than 200 MiB of memory and was killed$"):
        asked(child, b"grow", lambda: child.limit_memory(200))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not kill the children of a dead process")
def test_a_spawned_process_dies_with_its_owner(tmp_path: Path) -> None:
    told = tmp_path / "child"
    with subprocess.Popen([sys.executable, "-c", _OWNER, _CHILD, str(told)]) as owner:
        deadline = time.monotonic() + 120
        while not told.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        owner.kill()
    process, deadline = Path("/proc") / told.read_text(), time.monotonic() + 30
    while process.exists() and "\nState:\tZ" not in (process / "status").read_text():
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.02)
