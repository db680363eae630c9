"""Records and runs for tests: a record to derive others from, and a run on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onnx_parity.harness.record import Kind, Metrics, Record, RunEnd, RunInfo, Stage, Status
from onnx_parity.harness.store import RecordWriter, create_run, write_end

INFO = RunInfo(id="20260131-101500-1", started="2026-01-31T10:15:00+00:00", seed=0, tier="default")

#: A cell that passed. Tests make others from it with `msgspec.structs.replace`.
RECORD = Record(
    cell="elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime",
    case="elu[alpha=1.0]",
    name="elu",
    family="activation",
    kind=Kind.OPERATOR,
    file="op_cases/activation.py",
    line=12,
    nodeid="op_cases/activation.py::elu::elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime",
    opset=9,
    dtype="float32",
    device="cpu",
    capture="trace",
    exporter="parity",
    runtime="onnxruntime",
    shapes="static",
    status=Status.PASSED,
    stage=Stage.RERUN_VALUES,
)

#: The distance of outputs that are wrong by half more than the tolerance.
METRICS = Metrics(
    max_abs=3e-7,
    max_rel=1e-6,
    ulp_p50=1.0,
    ulp_p99=9.0,
    ulp_max=12.0,
    headroom=0.67,
    tolerance=2e-7,
    output=0,
    index=(0,),
    got=0.3000003,
    expected=0.3,
)


def write_run(root: Path, records: Iterable[Record], info: RunInfo = INFO, end: RunEnd | None = None) -> Path:
    """Write a run under `root` as one process would, and return its folder."""
    run = create_run(root, info)
    writer = RecordWriter(run, "gw0")
    for record in records:
        writer.append(record)
    writer.close()
    if end is not None:
        write_end(run, end)
    return run
