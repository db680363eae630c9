"""A project whose cells fail in every way that a cell can, each at the stage in its name."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Stage
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.store import InFlight
from tests.forked import Ended, Started, run, start

#: Those that a cell without transformations has.
STAGES = tuple(stage for stage in Stage if stage is not Stage.TRANSFORM)
#: The file in which a cell named `wait_at_...` writes its process. The cell continues when the file is removed.
WAITING = "waiting"
#: One cell for each case, with dynamic sizes, so that it has every stage.
CELLS = ("--devices", "cpu", "--opsets", "18", "-k", "dynamic or after")
#: The limits of cells. torch itself takes half of the memory. Two seconds are for the stages in which one of `SOME`
#: hangs, because allocating the memory takes longer on a busy machine.
MEMORY_LIMIT = ("--memory-limit", "1000")
LONG_LIMITS = ("--stage-seconds", "60", *MEMORY_LIMIT)
LIMITS = ("--stage-seconds", "60,check=2,load=2,run=2", *MEMORY_LIMIT)

#: Options of an inner pytest, without plug-ins that take seconds to import and do not matter here.
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
    """Write the numbers of the process that runs the cell and of its parent, and wait to be killed."""
    aside = Path("waiting.tmp")
    aside.write_text(f"{os.getpid()} {os.getppid()}")
    aside.rename(WAITING)
    while Path(WAITING).exists():
        time.sleep(0.01)


def kill_owner() -> None:
    """Kill the parent of the cell's process, as a user or the system may, the first time only."""
    told = killed_by(_running[0])
    if not told.exists():
        told.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()


def killed_by(name: str) -> Path:
    """The file in which a cell that kills its parent writes the number of its own process."""
    return Path(f"killed-by-{name}")


#: The functions that cause the faults, and what the record says of each.
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
    """The names of the cases, numbered where a fault occurs several times in a stage."""
    seen: Counter[Planted] = Counter()
    names = []
    for fault, stage in faults:
        again = f"_again{seen[fault, stage]}" if seen[fault, stage] else ""
        seen[fault, stage] += 1
        names.append(f"{fault}_at_{stage}{again}")
    return names


def plant() -> None:
    """Have cells named `segfault_at_export` do so when they enter the stage."""
    # On a busy machine, the imports for an export of dynamic sizes take seconds, which must not count as a hang.
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
    """Write a case for each fault, after one that passes. All have dynamic sizes, so that they have every stage.

    The operators compute exactly: among a thousand draws, rounding would make some of the cells fail.
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


def start_project(root: Path, *arguments: str) -> Started:
    """Start `pytest ...` or `parity ...` in the project, with the packages of this checkout."""
    return start(root, *arguments, PYTHONPATH=_import_path(root))


def run_project(root: Path, *arguments: str, timeout: float = 180) -> Ended:
    """Run `pytest ...` or `parity ...` in the project to its end."""
    return run(root, *arguments, timeout=timeout, PYTHONPATH=_import_path(root))


def _import_path(root: Path) -> str:
    return os.pathsep.join([str(Path(__file__).parents[2]), str(root)])
