"""Runs the jobs of each model in turn, and collects their outcomes as results."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from benchmarks import children
from benchmarks.graphs import nodes_of
from benchmarks.jobs import Failure, Job, JobResult, Latency, LatencyJob, Memory, MemoryJob, TimeJob, Times
from benchmarks.matrix import measure_matrix
from benchmarks.models import MODELS, ModelGroup
from benchmarks.results import Lane, MatrixResults, MatrixTime, ModelResults, Results, Timed
from benchmarks.subjects import EXPORTERS, LAYOUTS, Contender

PACKAGES = ("torch", "torchvision", "onnx", "onnx-ir", "onnxruntime", "onnxscript")

#: Warm exports in each process.
WARM = 3

#: The number of sessions, with each exporter equally often the first that allocates memory.
LATENCY_SESSIONS, LATENCY_ROUNDS = 12, 10


def measure(models: list[str], rounds: int, folder: Path, say: Callable[[str], None], *, matrix: bool) -> Results:
    """Measure `models`, and the matrix if `matrix`. Exported files are written to `folder`.

    The exporters take turns. If one fails, the failure is part of the results.
    """
    results = {}
    for name in models:
        place = folder / name
        place.mkdir()
        results[name] = _Measurement(name, place, say).all(rounds)
        shutil.rmtree(place)
    packages = {package: version(package) for package in PACKAGES}
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    cells = run_matrix(folder, say) if matrix else None
    return Results(packages=packages, machine=machine, models=results, matrix=cells)


def run_matrix(folder: Path, say: Callable[[str], None]) -> MatrixResults:
    """The operators at every opset, and then the default tier of all declarations, each in a pytest of its own."""
    results = MatrixResults()
    say("matrix: operators")
    every_opset = ("op_cases", "--tier", "smoke", "--opsets", "7-26", "--devices", "cpu")
    match measure_matrix(every_opset, folder / "operators"):
        case MatrixTime() as time:
            results.operators = time
        case Failure(reason):
            results.failures["operators"] = reason
    say("matrix: everything")
    match measure_matrix(("op_cases", "model_zoo"), folder / "everything"):
        case MatrixTime() as time:
            results.everything = time
        case Failure(reason):
            results.failures["everything"] = reason
    return results


class _Measurement:
    """The measurement of one model."""

    def __init__(self, name: str, folder: Path, say: Callable[[str], None]) -> None:
        self.name = name
        self.folder = folder
        self.say = say
        self.results = ModelResults()

    def all(self, rounds: int) -> ModelResults:
        scripted = MODELS[self.name].kind is ModelGroup.SCRIPT
        for _ in range(rounds):
            # The floor replaces weights by other objects, which compiled modules do not allow.
            for subject in EXPORTERS if scripted else Contender:
                self.time(subject, Lane.STATIC)
        self.nodes()
        self.latency()
        if MODELS[self.name].kind is ModelGroup.NETWORK:
            for _ in range(rounds):
                for subject in EXPORTERS:
                    self.time(subject, Lane.DYNAMIC)
            for _ in range(rounds):
                for subject in Contender:
                    self.memory(subject)
        return self.results

    def time(self, subject: Contender, lane: Lane) -> None:
        what = f"{subject}, {lane}"
        if what in self.results.failures:
            return
        dynamic = lane is Lane.DYNAMIC
        path = str(self.path(subject, lane))
        outcome = self.run(what, TimeJob(subject, self.name, path=path, dynamic=dynamic, warm=WARM))
        if isinstance(outcome, Times):
            timed = self.results.times.setdefault(lane, {}).setdefault(subject, Timed())
            timed.first.append(outcome.first)
            timed.warm.extend(outcome.warm)

    def memory(self, subject: Contender) -> None:
        """Use the largest peak of all rounds, because threads do not always write at the same time."""
        for weights in LAYOUTS[subject]:
            path = str(self.folder / f"memory-{subject.name}-{weights}.onnx")
            what = f"{subject}, memory, {weights}"
            outcome = self.run(what, MemoryJob(subject, self.name, path=path, weights=weights))
            if isinstance(outcome, Memory):
                peaks = self.results.memory.setdefault(subject, {})
                peaks[weights] = max(peaks.get(weights, outcome), outcome, key=lambda measured: measured.extra)

    def nodes(self) -> None:
        for subject, path in self.exported().items():
            self.results.nodes[subject] = nodes_of(path)

    def latency(self) -> None:
        paths = {subject: str(path) for subject, path in self.exported().items()}
        if not paths:
            return
        outcome = self.run("latency", LatencyJob(self.name, paths, LATENCY_SESSIONS, LATENCY_ROUNDS))
        if isinstance(outcome, Latency):
            self.results.latency = outcome
            for subject, reason in outcome.wrong.items():
                self.results.failures[f"{subject}, latency"] = reason

    def exported(self) -> dict[Contender, Path]:
        """The files of the static exports."""
        timed = self.results.times.get(Lane.STATIC, {})
        return {subject: self.path(subject, Lane.STATIC) for subject in EXPORTERS if subject in timed}

    def path(self, subject: Contender, lane: Lane) -> Path:
        return self.folder / f"{lane.name}-{subject.name}.onnx"

    def run(self, what: str, job: Job) -> JobResult | None:
        self.say(f"{self.name}: {what}")
        outcome = children.run(job, self.folder)
        if isinstance(outcome, Failure):
            self.results.failures[what] = outcome.reason
            return None
        return outcome
