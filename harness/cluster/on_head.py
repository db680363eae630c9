"""The process of a job that was sent to a cluster: it runs `parity run` on the cluster, and its output carries home
what is written into the folder of the run.

    python -m onnx_parity.harness.cluster.on_head ARGUMENTS OF PARITY RUN

It is run in a copy of the project's files. The run is made in `runs/` there, as it would be at home.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

from onnx_parity.harness.cluster.facts import differences, facts
from onnx_parity.harness.cluster.messages import Facts
from onnx_parity.harness.cluster.mirroring import Mirror

#: The file beside those of the project that says where the job was sent from.
SENDER = ".parity-sender"
_RUN = "from onnx_parity.harness.cli import app; app()"
#: Seconds between two looks at the folder of the run.
_LOOK = 1.0


class Sender(msgspec.Struct, frozen=True):
    """What was sent, and where from."""

    #: The name of the job. It makes the files of each job others, so that Ray gives each a folder of its own.
    job: str
    facts: Facts
    #: The working directory, relative to the project's folder.
    folder: str
    #: A folder of the cluster in which the run is kept, if one is wanted.
    keep: str


def main(arguments: list[str]) -> int:
    root = Path.cwd()
    sender = msgspec.msgpack.decode((root / SENDER).read_bytes(), type=Sender)
    if differs := differences(facts({}), sender.facts):
        print(f"the cluster differs from where this was sent from: {'; '.join(differs)}", flush=True)
    runs = root / "runs"
    if sender.keep:
        kept = Path(sender.keep) / sender.job
        try:
            kept.mkdir(parents=True)
        except OSError as error:
            print(f"--keep {sender.keep} cannot be written to by the cluster's head: {error.strerror}", flush=True)
            return 2
        runs.symlink_to(kept)
    command = [sys.executable, "-c", _RUN, "run", *arguments, "--on", "ray", "--no-report"]
    process = subprocess.Popen(
        command, cwd=root / sender.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    )  # fmt: skip

    def stop(number: int, frame: FrameType | None) -> None:
        process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    printing = threading.Lock()

    def say(line: str) -> None:
        with printing:
            print(line, flush=True)

    def pass_on() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip("\n"))

    reader = threading.Thread(target=pass_on)
    reader.start()
    mirror = Mirror(runs)
    ended = False
    while not ended:
        try:
            process.wait(_LOOK)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        for line in mirror.lines():
            say(line)
    reader.join()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
