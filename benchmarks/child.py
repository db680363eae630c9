"""A child process: runs one job, which it reads from standard input, and sends its outcome.

    python -m benchmarks.child DESCRIPTOR

The outcome is sent to the descriptor, because exporters print to standard output.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.jobs import (
    Clock,
    Exported,
    ExportJob,
    Job,
    JobResult,
    Latency,
    LatencyJob,
    Memory,
    MemoryJob,
    TimeJob,
    Times,
)
from benchmarks.models import SMALL_NETWORK
from benchmarks.newer_networks.models import model_named
from benchmarks.subjects import DEFAULT_LAYOUT, Contender, export
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.running.channel import Channel, die_with

#: torch.export treats a dimension of 1 as fixed.
DYNAMIC_BATCH = 2

#: Exports of milliseconds are repeated until they take this time, because a median of three of them would be noise.
WARM_SECONDS = 0.5

#: One thread, because on a busy machine most of the noise is the wait for a second thread.
ORT_THREADS = 1


def clocked(action: Callable[[], None]) -> Clock:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Clock(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)


def measure_time(job: TimeJob) -> Times:
    model, args = model_named(job.model).make(DYNAMIC_BATCH if job.dynamic else 1)

    def once() -> None:
        export(job.subject, model, args, Path(job.path), DEFAULT_LAYOUT[job.subject], dynamic=job.dynamic)

    # The first export is not protected from garbage collection, which its imports cause.
    times = Times(first=clocked(once), warm=[])
    while (taken := sum(clock.wall for clock in times.warm)) < WARM_SECONDS or (
        len(times.warm) < job.warm and (job.enough is None or taken < job.enough)
    ):
        gc.collect()
        times.warm.append(clocked(once))
    return times


def export_variants(job: ExportJob) -> Exported:
    failures = []
    for variant in job.variants:
        # Each is made anew: some exporters leave their traces in a module.
        model, args = model_named(job.model).make(variant.batch)
        layout = DEFAULT_LAYOUT[job.subject]
        try:
            export(job.subject, model, args, Path(variant.path), layout, dynamic=variant.dynamic, opset=variant.opset)
            failures.append("")
        except Exception as error:  # noqa: BLE001  What an exporter raises is its outcome.
            failures.append(error_line(error))
    return Exported(failures)


def measure_memory(job: MemoryJob) -> Memory:
    model, args = model_named(job.model).make()
    # The first export of a process loads code, which is not part of the cost of a model.
    small, small_args = SMALL_NETWORK.make()
    export(job.subject, small, small_args, Path(job.path).with_suffix(".warm-up.onnx"), job.weights)
    before = settled_memory()
    start = time.perf_counter()
    export(job.subject, model, args, Path(job.path), job.weights)
    seconds = time.perf_counter() - start
    tensors = [*model.parameters(), *model.buffers()]
    return Memory(weights=sum(tensor.nbytes for tensor in tensors), extra=memory("VmHWM") - before, seconds=seconds)


def settled_memory() -> int:
    """Release free memory, reset the high-water mark, and return the resident memory."""
    gc.collect()
    # Otherwise the export could use memory that malloc keeps from building the model, which would not be measured.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(field: str) -> int:
    """A field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise LookupError(f"/proc/self/status has no {field}: memory is measured on Linux only")


def measure_latency(job: LatencyJob) -> Latency:
    import numpy as np
    import onnxruntime
    import torch

    model, args = model_named(job.model).make(job.batch)
    with torch.no_grad():
        output = model(*args)
    expected = (output if isinstance(output, torch.Tensor) else output[0]).numpy()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = ORT_THREADS
    given = [arg.numpy() for arg in args]
    wrong: dict[Contender, str] = {}
    milliseconds: dict[Contender, list[float]] = {}
    order = list(job.paths)
    for _ in range(job.sessions):
        # They take turns at running, and also, from session to session, at being the first that allocates memory.
        runs: dict[Contender, Callable[[], list[np.ndarray]]] = {}
        for subject in order:
            session = onnxruntime.InferenceSession(job.paths[subject], options, providers=["CPUExecutionProvider"])
            feeds = dict(zip((each.name for each in session.get_inputs()), given, strict=True))
            runs[subject] = partial(session.run, None, feeds)
            (found, *_) = runs[subject]()
            if not np.allclose(found, expected, rtol=1e-3, atol=1e-4):
                wrong[subject] = (
                    f"onnxruntime's output differs by {np.abs(found - expected).max():.1e} from the model's"
                )
        taken: dict[Contender, list[float]] = {subject: [] for subject in order}
        for _ in range(job.rounds):
            for subject in order:
                # Of the one thread: the time in which other programs had the processor does not count.
                start = time.process_time()
                runs[subject]()
                taken[subject].append(1e3 * (time.process_time() - start))
        for subject in order:
            milliseconds.setdefault(subject, []).append(median(taken[subject]))
        order = [subject for subject in (*order[1:], *order[:1]) if subject not in wrong]
    fused = {subject: _fused(Path(path)) for subject, path in job.paths.items()}
    return Latency({subject: milliseconds[subject] for subject in order}, wrong=wrong, fused=fused)


def _fused(path: Path) -> dict[str, int]:
    """The operators of which onnxruntime's optimiser adds nodes to the graph of a file, and how many."""
    import onnx
    import onnxruntime

    from benchmarks.graphs import operators  # It imports the exporter, which is part of the time of a first export.

    options = onnxruntime.SessionOptions()
    optimised = path.with_suffix(".optimised.onnx")
    options.optimized_model_filepath = str(optimised)
    options.log_severity_level = 3  # It warns that the file is for this machine only.
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    before, after = (operators(onnx.load(each, load_external_data=False).graph) for each in (path, optimised))
    optimised.unlink()
    return dict(sorted((after - before).items()))


def measure(job: Job) -> JobResult:
    match job:
        case TimeJob():
            return measure_time(job)
        case ExportJob():
            return export_variants(job)
        case MemoryJob():
            return measure_memory(job)
        case LatencyJob():
            return measure_latency(job)


def main(descriptor: int) -> None:
    die_with(os.getppid())
    warnings.simplefilter("ignore")
    channel = Channel(sys.stdin.fileno(), descriptor)
    channel.send(msgspec.json.encode(measure(msgspec.json.decode(channel.receive(), type=Job))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
