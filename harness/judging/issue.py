"""The text of an issue for the tracker of whoever is to blame: of a failing cell, and of a finding."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_parity.exporter.verification.bundle import SCRIPT, Bundle
from onnx_parity.harness.axes import ADAPTERS, THEN
from onnx_parity.harness.judging.model_script import script_of_model
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Blame, Record, RunInfo
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from onnx_parity.harness.transformations.named import TRACKERS, TRANSFORMATIONS

__all__ = ["Issue", "culprit_of", "issue_of", "tracker_of"]

#: The distribution that is to blame, where it has another name than the culprit: the trackers are known by these.
_DISTRIBUTIONS = {"onnx.reference": "onnx", "torch_dynamo": "torch", "torch_script": "torch"}
#: A larger model is attached, and not part of the text: bytes of the model and its inputs, and characters.
_MOST_BYTES, _MOST_TEXT = 1 << 14, 1 << 14
#: Seconds that a script may take.
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Issue:
    """What an issue says. What is empty is left out."""

    title: str
    #: Why it is a defect: what the culprit's documentation says, or who disagrees.
    defect: str
    program: str
    #: What the program prints, and its exit code.
    prints: str
    exit: int
    versions: Mapping[str, str]
    #: Since which version it is there, and in which it is gone.
    history: str = ""

    @property
    def text(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        parts = [
            f"# {self.title}",
            self.defect,
            f"To reproduce:\n\n```python\n{self.program.rstrip()}\n```",
            f"It prints, and ends with exit code {self.exit}:\n\n```text\n{self.prints.strip()}\n```",
            f"Versions: {versions}." + (f" It is there {self.history}." if self.history else ""),
        ]
        return "\n\n".join(part for part in parts if part.strip()) + "\n"


def culprit_of(record: Record, details: Sequence[str]) -> str:
    """Whose defect a failure is, by its name in the harness; empty if that is not known."""
    match record.blame:
        case Blame.RUNTIME | Blame.PRECISION:
            return record.runtime
        case Blame.EXPORTER:
            return record.exporter
        case Blame.TRANSFORMATION:
            # The last words of the ruling name it.
            told = " ".join(details)
            return next((each for each in record.transforms.split(THEN) if f"so {each} is wrong" in told), "")
        case _:
            return ""


def tracker_of(culprit: str) -> str:
    """The address of a culprit's issues; empty if it is not known, as that of a user's own exporter."""
    package = _DISTRIBUTIONS.get(culprit, culprit.partition(":")[0])
    if package in TRACKERS:
        return TRACKERS[package]
    subject = RUNTIMES[culprit] if culprit in ADAPTERS else TRANSFORMATIONS.get(culprit)
    return str(getattr(subject, "tracker", ""))


def issue_of(outcome: Outcome, record: Record, bundle: Bundle, folder: Path, history: str, *, own: str = "") -> Issue:
    """The issue of a failing cell, whose bundle is in the folder. The program is run, for what it prints. `own` is the
    place of the user's own lowering that is to blame."""
    culprit = own.rpartition(" in ")[2] if own else culprit_of(record, outcome.details)
    title = _title(record, culprit)
    defect = [*outcome.details]
    packages: tuple[str, ...] = ("onnxscript", *RUNTIMES[outcome.runtime].packages)
    if record.blame is Blame.EXPORTER:
        by = f"{record.exporter}, with the lowering {own}" if own else culprit
        defect.append(f"It is the export of {record.case} ({record.file}:{record.line}) by {by}.")
    program, code, prints = "", 0, ""
    if record.blame is Blame.RUNTIME and (program := _small_script(outcome, title, bundle.nbytes)):
        code, prints = _run_python("-c", program)
    if code == 0:
        program = (folder / SCRIPT).read_text("utf-8")
        # Without a model, the script exports it again, which has just failed.
        code, prints = _run_python(str(folder / SCRIPT)) if bundle.model is not None else (1, outcome.reason)
        defect.append(f"The script reads files of the folder {folder.name}, which is attached.")
    run: RunInfo = bundle.environment
    names = dict.fromkeys(("python", "onnx", "torch", "numpy", *packages))
    versions = {name: run.packages[name] for name in names if name in run.packages}
    return Issue(title, "\n".join(defect), program, prints, code, versions | {"on": run.platform}, history)


def _title(record: Record, culprit: str) -> str:
    operators = [use.op for use in record.onnx]
    of = (
        ", ".join(operators) if 0 < len(operators) < 4 else f"a model of {record.nodes} node{'s' * (record.nodes != 1)}"
    )
    what = "computes a wrong result of" if record.stage in ("compare", "rerun_sizes", "rerun_values") else "fails with"
    return f"{culprit or record.runtime} {what} {of} ({record.dtype}, opset {record.opset})"


def _small_script(outcome: Outcome, title: str, nbytes: int) -> str:
    """The script of one file, if the model is small; it has one tolerance for all, and may not show a small error."""
    trial = outcome.trial or (outcome.prepared.reference.example if outcome.prepared else None)
    name = outcome.runtime.partition(":")[0]
    if name not in ("onnxruntime", "onnx.reference") or trial is None or outcome.delivered is None:
        return ""
    model = outcome.delivered.proto
    if nbytes > _MOST_BYTES:
        return ""
    text = script_of_model(title, model, trial.feeds, trial.values, runtime=name)
    return text if len(text) <= _MOST_TEXT else ""


def _run_python(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + "\n".join(done.stderr.splitlines()[-1:])
