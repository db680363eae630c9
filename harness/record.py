"""The data of a run: one `Record` per cell, one `RunInfo` and one `RunEnd` per run.

The harness writes these types and the reports read them. `onnx_parity.harness.store` writes records as lines of JSON.
New fields have defaults and fields are never renamed, so that old runs can still be read. A run of each earlier schema
version is kept in `tests/harness/old_runs/` to test that.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum

import msgspec

#: Version 2 added: when a cell ran and how long, the memory of its process, the error of an expected failure, `RunEnd`.
SCHEMA_VERSION = 2

#: What a shell interprets within double quotes.
_INTERPRETED = re.compile(r'["$`\\!]')

#: What the reason of a refusal says that a later opset lifts: `(from opset 13)`.
AT_A_LATER_OPSET = "(from opset"

#: The headroom of an exact result.
EXACT_HEADROOM = 1e9


class Stage(StrEnum):
    """The stages of a cell, in the order in which they run."""

    BUILD = "build"
    REFERENCE = "reference"
    EXPORT = "export"
    CHECK = "check"
    TRANSFORM = "transform"
    LOAD = "load"
    RUN = "run"
    COMPARE = "compare"
    RERUN_SIZES = "rerun_sizes"
    RERUN_VALUES = "rerun_values"


class Status(StrEnum):
    """The outcome of a cell."""

    PASSED = "passed"
    #: A stage failed; `Record.stage` names the stage, `Record.blame` the likely cause.
    FAILED = "failed"
    #: The exporter raised an error: ONNX cannot express the program at this opset, or there is no lowering.
    UNSUPPORTED = "unsupported"
    #: It failed, as an expectation predicts.
    KNOWN = "known"
    #: It passed although an expectation predicts a failure. This fails the run.
    UNEXPECTED_PASS = "unexpected_pass"
    #: It could not run here: no CUDA device, a runtime that is not installed. Never counted as passed.
    ABSENT = "absent"
    #: The process that ran it ended.
    CRASHED = "crashed"

    @property
    def words(self) -> str:
        """As a reader is shown it: `unexpected pass`."""
        return self.value.replace("_", " ")


#: Statuses from the gravest to the least.
GRAVEST_FIRST = (
    Status.CRASHED, Status.FAILED, Status.UNEXPECTED_PASS, Status.KNOWN, Status.UNSUPPORTED, Status.ABSENT,
    Status.PASSED,
)  # fmt: skip
#: The statuses that fail a run.
WRONG = frozenset({Status.CRASHED, Status.FAILED, Status.UNEXPECTED_PASS})


class Blame(StrEnum):
    """The likely cause of a mismatch, from a comparison of several runtimes and precisions."""

    EXPORTER = "exporter"
    TRANSFORMATION = "transformation"
    RUNTIME = "runtime"
    PRECISION = "precision"
    CASE = "case"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    OPERATOR = "operator"
    MODEL = "model"


class Ending(StrEnum):
    """How a runtime dealt with a model, in the categories of a user of the runtime. The gravest comes first."""

    #: It returned wrong outputs, without an error.
    WRONG = "wrong"
    #: Its process ended, or did not end.
    CRASHED = "crashed"
    HUNG = "hung"
    #: It did not load or run the model, with an error that does not say that something is not supported.
    REFUSED = "refused"
    #: It says that it does not support the opset, the dtype, or an operator for these types.
    UNSUPPORTED = "unsupported"
    RIGHT = "right"


class Metrics(msgspec.Struct, frozen=True, omit_defaults=True):
    """The distance between the runtime's outputs and the reference, at the worst output.

    JSON has neither NaN nor infinities: None stands for NaN, the largest float of the same sign for an infinity.
    """

    max_abs: float | None
    max_rel: float | None
    #: Quantiles of the error in units in the last place of the output's dtype.
    ulp_p50: float
    ulp_p99: float
    ulp_max: float
    #: The tolerance divided by the error at the worst element. Below 1 the cell fails. At most `EXACT_HEADROOM`.
    headroom: float
    #: The tolerance at the worst element.
    tolerance: float
    #: The output and the index in it at which the headroom is smallest.
    output: int
    index: tuple[int, ...]
    #: The two values at this element.
    got: float | None
    expected: float | None


class OnnxUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ONNX operator of the exported graph."""

    op: str
    since_version: int
    count: int = 1
    domain: str = ""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one cell."""

    #: The id of the cell, which `pytest -k`, the expectations and the reports use.
    cell: str
    #: The case with its attributes: `avg_pool2d[ceil_mode=True]`.
    case: str
    #: The name of its declaration, `avg_pool2d`, and the stem of the file, `pooling`.
    name: str
    family: str
    kind: Kind
    #: The file of the declaration, relative to the project, and the line: `op_cases/pooling.py`, 41.
    file: str
    line: int
    #: Its node id in pytest, which says all that the cell is: `again` runs it with this.
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
    #: The last stage that began.
    stage: Stage
    seconds: dict[str, float] = {}
    #: One line: the reason why the cell did not pass. For `known`, the expectation's reason.
    reason: str = ""
    #: For `known`, the expectation's link.
    link: str = ""
    #: The complete text that the terminal shows.
    message: str = ""
    blame: Blame | None = None
    metrics: Metrics | None = None
    #: The qualified names of the traced ATen operators: `aten::avg_pool2d`.
    aten: tuple[str, ...] = ()
    onnx: tuple[OnnxUse, ...] = ()
    nodes: int = 0
    worker: str = ""
    #: When the cell began, in seconds since 1970, and how many seconds its process spent on it, within stages or not.
    began: float = 0.0
    elapsed: float = 0.0
    #: The processor time of its export in seconds, which other load on the machine hardly affects; 0 if unknown.
    export_cpu: float = 0.0
    #: The resident memory of the process after the cell, in MiB.
    memory: int = 0
    #: The actual error, where `reason` is the expectation's.
    error: str = ""
    #: The id of the run in which the cell ran, if the record was carried over because nothing it depends on changed.
    carried: str = ""
    #: The id of the run of which the outcome is, if it was known by its hash (`--reuse`), and when the cell ran there.
    reused: str = ""
    ran: float = 0.0
    #: A hash of the source of its declaration.
    source: str = ""
    #: What else it depends on: files with hashes (`mine/nets.py 5f0c...`), and distributions (`package timm`).
    depends: tuple[str, ...] = ()
    #: Why it was run though an earlier run has its outcome, for `--since`: `mine/nets.py changed`.
    rerun: str = ""
    #: The failure bundle, relative to the run's folder; empty if there is none.
    bundle: str = ""
    #: Whether the exporter refused the program, though `unsupported.toml` does not say so.
    refused: bool = False
    #: What was done to the model before it was run: `onnxslim+float16`; empty if it was run as it was exported.
    transforms: str = ""
    #: For an absent cell, whether the runtime or a transformation said that it does not support the model.
    declined: bool = False
    #: For a cell that ran on onnx.reference instead, the kernel that onnxruntime lacks: `Mod(13) of float16`.
    lacks: str = ""
    #: What the exporter warned of, one line each.
    warned: tuple[str, ...] = ()
    #: The options of the run that the node id does not tell: `--parity-seed=3`.
    options: tuple[str, ...] = ()

    @property
    def again(self) -> str:
        """The command that runs this cell again, in double quotes unless a shell would interpret their content."""
        plain = not _INTERPRETED.search(self.nodeid)
        return " ".join(["pytest", f'"{self.nodeid}"' if plain else shlex.quote(self.nodeid), *self.options])

    @property
    def ran_on(self) -> str:
        """The runtime, with what was done to the model before: `onnxslim+float16 → onnxruntime`."""
        return f"{self.transforms} → {self.runtime}" if self.transforms else self.runtime

    #: The public functions that the program calls, and the modules that it consists of: `torch.nn.functional.elu`.
    calls: tuple[str, ...] = ()


class RunInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a run: when and where it ran, with which packages and options."""

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
    #: A hash of what was not committed; empty if all was.
    edits: str = ""
    #: Missing devices, exporters and runtimes to the reason: `cuda` to `no CUDA device`.
    missing: dict[str, str] = {}
    #: `2/8` if the run is a shard. The ids of the runs that this one was merged from.
    shard: str = ""
    merged: tuple[str, ...] = ()
    #: Source file to a hash of its content, for all files that take part in running cells.
    contents: dict[str, str] = {}
    #: Each installed distribution with its version and a hash of its files' hashes. Empty if records do not say what
    #: they depend on.
    distributions: dict[str, str] = {}
    #: The number of earlier runs in a chain of `--since`. The sample of unchanged cells that is run rotates with it.
    turn: int = 0
    #: Version 1 did not write this field.
    schema_version: int = 1


class RunEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a run. A run without it is still running, or was killed."""

    #: ISO 8601, UTC.
    ended: str
    #: Whether every selected cell has been run.
    whole: bool
    #: How many cells had a record; 0 if that was not counted.
    cells: int = 0
    #: Of a run that is not whole: how many cells were not run, 0 if that is unknown, and why.
    lacking: int = 0
    why: str = ""
