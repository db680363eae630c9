"""The jobs of child processes, and their outcomes."""

from __future__ import annotations

import msgspec

from benchmarks.subjects import Subject, Weights


class TimeJob(msgspec.Struct, frozen=True, tag="time"):
    """Export once in a fresh process, then again at least `warm` times; leave the last file at `path`."""

    subject: Subject
    model: str
    path: str
    dynamic: bool
    warm: int


class MemoryJob(msgspec.Struct, frozen=True, tag="memory"):
    """Export once and say how far the resident memory rose above what the model held before."""

    subject: Subject
    model: str
    path: str
    weights: Weights


class LatencyJob(msgspec.Struct, frozen=True, tag="latency"):
    """Run the subjects' files in turn in onnxruntime, after checking each against the model's own output.

    Where a session's weights come to lie in memory makes it up to a tenth slower, so there are several.
    """

    model: str
    paths: dict[Subject, str]
    sessions: int
    #: In each session.
    rounds: int


Job = TimeJob | MemoryJob | LatencyJob


class Clock(msgspec.Struct, frozen=True):
    """Seconds by the clock on the wall, and of all this process's threads."""

    wall: float
    cpu: float


class Times(msgspec.Struct, frozen=True, tag="time"):
    first: Clock
    warm: list[Clock]


class Memory(msgspec.Struct, frozen=True, tag="memory"):
    #: Bytes of the parameters and buffers.
    weights: int
    #: Bytes of resident memory at the export's peak, less those just before.
    extra: int
    #: How long that took on the clock on the wall.
    seconds: float = 0.0


class Latency(msgspec.Struct, frozen=True, tag="latency"):
    #: The median of each session's rounds.
    milliseconds: dict[Subject, list[float]]
    #: Subjects whose file computes something else, and how far it is off. Their speed is not measured.
    wrong: dict[Subject, str]


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """The job did not come to its end; `reason` is one line that says why."""

    reason: str


Outcome = Times | Memory | Latency | Failure
