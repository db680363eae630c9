"""The measurements of one invocation, and the ratios computed from them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from statistics import median

import msgspec

from benchmarks.jobs import Clock, Latency, Memory
from benchmarks.subjects import Contender, Weights


class Lane(StrEnum):
    STATIC = "static"
    DYNAMIC = "dynamic batch"


class Timed(msgspec.Struct):
    """The exports of a model by one exporter, over all rounds. The figures are medians, in seconds."""

    first: list[Clock] = []
    warm: list[Clock] = []

    def wall(self) -> float:
        return median(clock.wall for clock in self.warm)

    def cpu(self) -> float:
        return median(clock.cpu for clock in self.warm)

    def first_wall(self) -> float:
        return median(clock.wall for clock in self.first)


class ModelResults(msgspec.Struct):
    """The measurements of one model."""

    times: dict[Lane, dict[Contender, Timed]] = {}
    memory: dict[Contender, dict[Weights, Memory]] = {}
    nodes: dict[Contender, int] = {}
    latency: Latency | None = None
    #: Failures with their reasons: `torch.onnx dynamo=True, dynamic batch` to `RuntimeError: ...`.
    failures: dict[str, str] = {}

    def time_ratio(self, lane: Lane, over: Contender, under: Contender, read: Callable[[Timed], float]) -> float | None:
        """How many times longer `over` takes than `under`; None if one of them was not measured."""
        timed = self.times.get(lane, {})
        return read(timed[over]) / read(timed[under]) if over in timed and under in timed else None

    def memory_ratio(self, subject: Contender, weights: Weights) -> float | None:
        """Extra peak memory, divided by the bytes of the weights."""
        measured = self.memory.get(subject, {}).get(weights)
        return measured.extra / measured.weights if measured and measured.weights else None

    def latency_ratio(self, over: Contender, under: Contender) -> float | None:
        return self.latency.ratio(over, under) if self.latency else None


class MatrixTime(msgspec.Struct, frozen=True):
    """The number of cells, and the wall time of the whole command that ran them."""

    cells: int
    seconds: float

    def rate(self) -> float:
        return self.cells / self.seconds


class MatrixResults(msgspec.Struct):
    """The speed of the matrix on this machine. None if pytest itself failed."""

    operators: MatrixTime | None = None
    everything: MatrixTime | None = None
    failures: dict[str, str] = {}


class Results(msgspec.Struct):
    #: The versions of packages, and the machine, for which the figures are valid.
    packages: dict[str, str]
    machine: str
    models: dict[str, ModelResults]
    matrix: MatrixResults | None = None
