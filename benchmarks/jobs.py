"""The jobs of child processes, and their outcomes."""

from __future__ import annotations

from statistics import median

import msgspec

from benchmarks.subjects import Contender, Weights


class TimeJob(msgspec.Struct, frozen=True, tag="time"):
    """Export once in a new process, then again at least `warm` times, or for `enough` seconds if they are given. The
    last file is at `path`.
    """

    subject: Contender
    model: str
    path: str
    dynamic: bool
    warm: int
    enough: float | None = None


class Variant(msgspec.Struct, frozen=True):
    """One way to export a model."""

    opset: int
    dynamic: bool
    batch: int
    path: str


class ExportJob(msgspec.Struct, frozen=True, tag="export"):
    """Export a model in several ways, in one process."""

    subject: Contender
    model: str
    variants: list[Variant]


class MemoryJob(msgspec.Struct, frozen=True, tag="memory"):
    """Export once, and report by how much the resident memory exceeded that before the export."""

    subject: Contender
    model: str
    path: str
    weights: Weights


class LatencyJob(msgspec.Struct, frozen=True, tag="latency"):
    """Run the exported files in onnxruntime in turn, after each has been checked against the model's own output.

    The addresses of a session's weights make it up to a tenth slower, so several sessions are used.
    """

    model: str
    paths: dict[Contender, str]
    sessions: int
    #: The number of rounds in each session.
    rounds: int
    batch: int = 1


Job = TimeJob | ExportJob | MemoryJob | LatencyJob


class Clock(msgspec.Struct, frozen=True):
    """Wall time in seconds, and the processor time of all threads of this process."""

    wall: float
    cpu: float


class Times(msgspec.Struct, frozen=True, tag="time"):
    first: Clock
    warm: list[Clock]


class Exported(msgspec.Struct, frozen=True, tag="export"):
    #: For each variant, in order, why it failed; empty if it did not.
    failures: list[str]


class Memory(msgspec.Struct, frozen=True, tag="memory"):
    #: Bytes of the parameters and buffers.
    weights: int
    #: The resident memory in bytes at the export's peak, minus that just before the export.
    extra: int
    #: The wall time of the export.
    seconds: float = 0.0


class Latency(msgspec.Struct, frozen=True, tag="latency"):
    #: The median of each session's rounds.
    milliseconds: dict[Contender, list[float]]
    #: Exporters whose file gives another output, and the size of the difference. Their latency is not measured.
    wrong: dict[Contender, str]
    #: The operators of which onnxruntime's optimised graph has more nodes than the file, and how many more.
    fused: dict[Contender, dict[str, int]] = {}

    def ratio(self, over: Contender, under: Contender) -> float | None:
        """The median over the sessions. In each they take turns, so that a slow machine affects both equally."""
        if over not in self.milliseconds or under not in self.milliseconds:
            return None
        pairs = zip(self.milliseconds[over], self.milliseconds[under], strict=True)
        return median(ours / theirs for ours, theirs in pairs)


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """The job did not end normally; `reason` is the reason in one line."""

    reason: str


JobResult = Times | Exported | Memory | Latency | Failure
