"""What a run leaves behind: one `Record` per cell, one `RunInfo` per run.

This is the only vocabulary that the harness and the reports share. Records are
written as JSON lines by `onnx_parity.harness.store`; a field is added with a default, never renamed,
so that old runs still read.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

#: 2: when a cell ran and for how long, its process's memory, an expected failure's own words, the run's end.
SCHEMA_VERSION = 2

#: The headroom of an exact result.
EXACT_HEADROOM = 1e9


class Stage(StrEnum):
    """The stages of a cell, in the order in which they run."""

    BUILD = "build"
    REFERENCE = "reference"
    EXPORT = "export"
    CHECK = "check"
    LOAD = "load"
    RUN = "run"
    COMPARE = "compare"
    RERUN_SIZES = "rerun_sizes"
    RERUN_VALUES = "rerun_values"


class Status(StrEnum):
    """How a cell ended."""

    PASSED = "passed"
    #: A stage went wrong; `Record.stage` says which one, `Record.blame` whose fault it is.
    FAILED = "failed"
    #: The exporter refused, with a reason: ONNX cannot say this at this opset, or there is no lowering.
    UNSUPPORTED = "unsupported"
    #: It failed as an expectation says it does.
    KNOWN = "known"
    #: An expectation says that it fails, and it passed. This fails the run.
    UNEXPECTED_PASS = "unexpected_pass"
    #: It did not run here: no CUDA device, a runtime that is not installed. Never counted as a pass.
    ABSENT = "absent"
    #: The process that ran it died.
    CRASHED = "crashed"

    @property
    def words(self) -> str:
        """As a reader is shown it: `unexpected pass`."""
        return self.value.replace("_", " ")


#: Statuses from the gravest to the least.
GRAVEST_FIRST = (
    Status.CRASHED,
    Status.FAILED,
    Status.UNEXPECTED_PASS,
    Status.KNOWN,
    Status.UNSUPPORTED,
    Status.ABSENT,
    Status.PASSED,
)
#: The statuses that fail a run.
WRONG = frozenset({Status.CRASHED, Status.FAILED, Status.UNEXPECTED_PASS})


class Blame(StrEnum):
    """Whose fault a mismatch is, from what the witnesses say."""

    EXPORTER = "exporter"
    RUNTIME = "runtime"
    PRECISION = "precision"
    CASE = "case"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    OPERATOR = "operator"
    MODEL = "model"


class Metrics(msgspec.Struct, frozen=True, omit_defaults=True):
    """The distance between the runtime's outputs and the reference, at the worst output.

    JSON has neither NaN nor infinities: None stands for NaN, the largest float of its sign for an infinity.
    """

    max_abs: float | None
    max_rel: float | None
    #: Quantiles of the error in units in the last place of the output's dtype.
    ulp_p50: float
    ulp_p99: float
    ulp_max: float
    #: Tolerance over error at the worst element; below 1 the cell fails. Capped at `EXACT_HEADROOM`.
    headroom: float
    #: The tolerance allowed at the worst element.
    tolerance: float
    #: Which output, and where in it, the headroom is smallest.
    output: int
    index: tuple[int, ...]
    #: The two values there.
    got: float | None
    expected: float | None


class OnnxUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator found in the emitted graph."""

    op: str
    since_version: int
    count: int = 1
    domain: str = ""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one cell."""

    #: Stable and readable: what `pytest -k`, the expectations and the reports use.
    cell: str
    #: The case with its attributes, e.g. `avg_pool2d[ceil_mode=True]`.
    case: str
    #: The declaration it comes from, e.g. `avg_pool2d`, and the file's stem, e.g. `pooling`.
    name: str
    family: str
    kind: Kind
    #: Where the declaration stands, relative to the project: `op_cases/pooling.py`, 41.
    file: str
    line: int
    #: The node id to pass to pytest to run this cell again.
    nodeid: str
    opset: int
    dtype: str
    device: str
    #: How the program was captured: `trace`, `script`, `exported_program`.
    capture: str
    exporter: str
    runtime: str
    #: `static` or `dynamic`.
    shapes: str
    status: Status
    #: The last stage that was entered.
    stage: Stage
    seconds: dict[str, float] = {}
    #: One line: why it is not a pass. The expectation's reason for `known`.
    reason: str = ""
    #: The link of the expectation, for `known`.
    link: str = ""
    #: The whole text shown in the terminal.
    message: str = ""
    blame: Blame | None = None
    metrics: Metrics | None = None
    #: ATen operators that were traced, by qualified name: `aten::avg_pool2d`.
    aten: tuple[str, ...] = ()
    onnx: tuple[OnnxUse, ...] = ()
    nodes: int = 0
    worker: str = ""
    #: When the cell began, in seconds since 1970, and how long its process was busy with it, stages and all else.
    began: float = 0.0
    elapsed: float = 0.0
    #: Seconds of a processor that its export took, which other load on the machine changes little; 0 if not known.
    export_cpu: float = 0.0
    #: What the process held when the cell was over, in MiB.
    memory: int = 0
    #: Why it failed, in its own words, where `reason` is that of an expectation.
    error: str = ""
    #: The run in which it really ran, where it was carried over because nothing that it depends on had changed.
    carried: str = ""
    #: A hash of its declaration's source.
    source: str = ""
    #: The failure bundle, relative to the run's folder; empty where there is none.
    bundle: str = ""


class RunInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run was: when, where, with which packages and options."""

    id: str
    #: ISO 8601, UTC.
    started: str
    seed: int
    tier: str
    argv: tuple[str, ...] = ()
    #: Package name to version: python, torch, torchvision, onnx, onnxruntime, onnx_ir, numpy.
    packages: dict[str, str] = {}
    platform: str = ""
    cpus: int = 0
    commit: str = ""
    #: Devices and runtimes that are missing, and why: `cuda` to `no CUDA device`.
    missing: dict[str, str] = {}
    #: `2/8` where the run is one of so many parts, and the runs that this one was merged from.
    shard: str = ""
    merged: tuple[str, ...] = ()
    #: The files that cells ran through, by a hash of their content.
    contents: dict[str, str] = {}
    #: How many runs `--since` lie behind this one: the sample that is run nevertheless rotates with it.
    turn: int = 0
    #: Version 1 did not write it.
    schema_version: int = 1


class RunEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run ended. Without one it goes on, or was killed."""

    #: ISO 8601, UTC.
    ended: str
    #: Whether every cell that was selected has had its turn.
    whole: bool
