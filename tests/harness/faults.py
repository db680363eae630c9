"""A project whose cells go wrong in every way that a cell can, each at the stage that its name says."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Stage
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.store import InFlight

STAGES = tuple(Stage)
#: Where a cell named `wait_at_...` says who runs it. It goes on once the file is gone.
WAITING = "waiting"
#: One cell a case, of dynamic sizes: it goes through every stage.
CELLS = ("--devices", "cpu", "--opsets", "18", "-k", "dynamic or after")
#: What a run holds its cells to: an imported torch takes half of the memory. Two seconds are for cells that hang,
#: be it in any stage or where one of `SOME` does: to take the memory lasts longer on a machine that does much else.
MEMORY_LIMIT = ("--memory-limit", "1000")
LONG_LIMITS = ("--stage-seconds", "60", *MEMORY_LIMIT)
SHORT_LIMITS = ("--stage-seconds", "2", *MEMORY_LIMIT)
LIMITS = ("--stage-seconds", "60,check=2,load=2,run=2", *MEMORY_LIMIT)

#: Without what costs an inner pytest seconds to import and says nothing of the plug-in.
LEAN = (
    "-p",
    "onnx_parity",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:cacheprovider",
    "--assert=plain",
)

_CONFTEST = """
from tests.harness.faults import plant
plant()
"""


def segfault() -> None:
    ctypes.string_at(0)


def overflow() -> None:
    # glibc's parser of regular expressions goes one frame deeper with each parenthesis.
    ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(1024), b"(" * (1 << 22), 1)


def hang_in_python() -> None:
    while True:
        time.sleep(0.1)


def hang_in_native_code() -> None:
    # PyDLL keeps the interpreter's lock, so that nothing in Python runs any more.
    ctypes.PyDLL(None).pause()


def stop_itself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def take_all_memory() -> None:
    taken = []
    while True:
        taken.append(b"x" * (64 << 20))


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_once() -> None:
    os._exit(3)


def exit_quietly() -> None:
    os._exit(0)


def leave() -> None:
    sys.exit(4)


def wait() -> None:
    """No fault of the cell's: it says which process runs it, and which one owns that, and waits to be killed."""
    aside = Path("waiting.tmp")
    aside.write_text(f"{os.getpid()} {os.getppid()}")
    aside.rename(WAITING)
    while Path(WAITING).exists():
        time.sleep(0.01)


def kill_owner() -> None:
    """No fault of the cell's: it kills who owns its process, as a user or a system may, and does so once."""
    told = killed_by(_running[0])
    if not told.exists():
        told.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()


def killed_by(name: str) -> Path:
    """Where the process of a cell that kills its owner says its number."""
    return Path(f"killed-by-{name}")


#: What is done, and what the record says of it.
FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "segfault": (segfault, "was killed by SIGSEGV"),
    "abort": (os.abort, "was killed by SIGABRT"),
    "overflow": (overflow, "was killed by SIGSEGV"),
    "hang": (hang_in_python, "did not end within 2 s and was killed"),
    "native_hang": (hang_in_native_code, "did not end within 2 s and was killed"),
    "stop": (stop_itself, "did not end within 2 s and was killed"),
    "memory": (take_all_memory, "took more than 1000 MiB of memory and was killed"),
    "kill": (kill_itself, "was killed by SIGKILL (as the system does when memory runs out)"),
    "exit": (exit_at_once, "exited with 3"),
    "exit_0": (exit_quietly, "exited with 0"),
    "leave": (leave, "exited with 4"),
}


def fill_disk() -> None:
    """No fault of the cell's: from now on half of each record fits on the disk."""
    write = os.write

    def written(fd: int, data: bytes) -> int:
        if len(data) < 200:
            return write(fd, data)
        if data.startswith(b'{"cell"'):
            return write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.write = written  # type: ignore[assignment]


_AROUND_CELLS = {"wait": wait, "kill_owner": kill_owner, "fill_disk": fill_disk}

#: A fault and the stage that it happens in.
Planted = tuple[str, Stage]
#: Every fault once, and every stage.
SOME: tuple[Planted, ...] = tuple((fault, STAGES[number % len(STAGES)]) for number, fault in enumerate(FAULTS))

#: The name of the case that runs.
_running: list[str] = []


def names_of(faults: Sequence[Planted]) -> list[str]:
    """The cases' names; those of a fault that is planted several times in a stage are numbered."""
    seen: Counter[Planted] = Counter()
    names = []
    for fault, stage in faults:
        again = f"_again{seen[fault, stage]}" if seen[fault, stage] else ""
        seen[fault, stage] += 1
        names.append(f"{fault}_at_{stage}{again}")
    return names


def plant() -> None:
    """Have cells named `segfault_at_export` do so when they enter the stage."""
    # What an export of dynamic sizes imports takes seconds on a busy machine, which must not count as a hang.
    import torch.export._trace  # noqa: F401

    run, enter = Bench.run, InFlight.enter

    def noting_run(bench: Bench, cell: Cell, ended: Callable[[Outcome], None]) -> Outcome:
        _running[:] = [cell.case.name]
        return run(bench, cell, ended)

    def faulty_enter(in_flight: InFlight, stage: Stage) -> None:
        enter(in_flight, stage)
        fault, _, where = _running[0].partition("_at_")
        if where.partition("_again")[0] == stage:
            os.write(2, f"about to {fault}\n".encode())
            (_AROUND_CELLS.get(fault) or FAULTS[fault][0])()

    patch = pytest.MonkeyPatch()
    patch.setattr(Bench, "run", noting_run)
    patch.setattr(InFlight, "enter", faulty_enter)


def make_project(root: Path, faults: Sequence[Planted]) -> None:
    """A case for each fault with one that passes before it; of dynamic sizes, so that they have every stage.

    All are exact: among a thousand draws there are some that a runtime's rounding fails.
    """
    lines = ["import torch.nn.functional as F", "from onnx_parity.harness.case import floats, op", ""]
    for number, name in enumerate(names_of(faults)):
        lines.append(f'before_{number} = op(F.relu, floats(2, 3), dynamic={{"x": {{0: "batch"}}}})')
        lines.append(f'{name} = op(F.relu, floats(2, 3), dynamic={{"x": {{0: "batch"}}}})')
    lines.append("after = op(F.relu, floats(2, 3))")
    folder = root / "faulty_cases"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "some.py").write_text("\n".join(lines) + "\n")
    (root / "conftest.py").write_text(_CONFTEST)
    (root / "pytest.ini").write_text("[pytest]\npython_files = faulty_cases/*.py\n")


def command(root: Path, *arguments: str) -> subprocess.Popen[str]:
    """`pytest ...` or `parity ...`, begun in the project with this clone's packages."""
    clone = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([clone, str(root)])}
    program, *options = arguments
    main = {
        "pytest": "import pytest, sys; sys.exit(pytest.main())",
        "parity": "from onnx_parity.harness.cli import app; app()",
    }
    return subprocess.Popen(
        [sys.executable, "-c", main[program], *options],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@dataclass(frozen=True)
class Ended:
    code: int
    text: str


def run_project(root: Path, *arguments: str, timeout: float = 180) -> Ended:
    """Run `pytest ...` or `parity ...` in the project to its end."""
    with command(root, *arguments) as process:
        try:
            text, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return Ended(process.returncode, text)
