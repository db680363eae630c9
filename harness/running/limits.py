"""The limits of a cell: seconds for each stage, and memory for the process that runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from onnx_parity.harness.axes import AxisError
from onnx_parity.harness.record import Stage

#: A model in float64 takes a minute on a busy machine. A stage that takes three minutes will not end.
STAGE_SECONDS = 180.0
_MIB = 1 << 20
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the process that runs cells; 0 means no limit."""

    stage_seconds: float = STAGE_SECONDS
    memory_mib: int = 0
    #: The limits of stages that differ from the general one.
    of_stages: Mapping[Stage, float] = field(default_factory=dict)

    def seconds(self, stage: Stage) -> float:
        return self.of_stages.get(stage, self.stage_seconds)


def parse_limits(stage_seconds: str, memory: str) -> Limits:
    """Parse the values of --stage-seconds, `60,export=300`, and of --memory-limit, `2048` (MiB)."""
    general = STAGE_SECONDS
    of_stages: dict[Stage, float] = {}
    for part in filter(None, (each.strip() for each in stage_seconds.split(","))):
        name, equals, number = part.rpartition("=")
        if equals and name not in list(Stage):
            raise AxisError(f"--stage-seconds {stage_seconds}: there is no stage {name!r}, only {', '.join(Stage)}.")
        seconds = _number(f"--stage-seconds {stage_seconds}", number)
        if equals:
            of_stages[Stage(name)] = seconds
        else:
            general = seconds
    mib = int(_number(f"--memory-limit {memory}", memory)) if memory else half_of_the_machine()
    return Limits(general, mib, of_stages)


def half_of_the_machine() -> int:
    """Half of the memory, in MiB, that this machine or the control group of this process has."""
    sizes = [_PAGE * os.sysconf("SC_PHYS_PAGES")]
    # Other systems than Linux have no such file, and without a limit its content is `max`.
    with suppress(OSError, ValueError):
        sizes.append(int(_CGROUP_LIMIT.read_text()))
    return min(sizes) // 2 // _MIB


def resident_mib(pid: int) -> int:
    """The resident memory of a process in MiB; 0 if the system does not provide it."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return _resident(statm.read())
    except (OSError, IndexError):
        return 0


def own_resident_mib() -> int:
    """The resident memory of this process. The file stays open, because it is read after every cell: this is ten times
    as fast."""
    statm = _own_statm(os.getpid())
    return 0 if statm is None else _resident(os.pread(statm, 128, 0))


def own_private_mib() -> int:
    """The private memory of this process, without pages of libraries and files that are shared with others."""
    statm = _own_statm(os.getpid())
    if statm is None:
        return 0
    _, resident, shared, *_ = os.pread(statm, 128, 0).split()
    return (int(resident) - int(shared)) * _PAGE // _MIB


@cache
def _own_statm(pid: int) -> int | None:
    try:
        return os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    except OSError:
        return None


def _resident(statm: bytes) -> int:
    return int(statm.split()[1]) * _PAGE // _MIB


def _number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise AxisError(f"{option}: {text!r} is not a number.") from None
    if not value >= 0:
        raise AxisError(f"{option}: {text} is not a limit. Give a positive number, or 0 for none.")
    return value
