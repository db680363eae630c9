"""A finding: a defect of somebody's software as a folder of plain files, and whether it is still there.

`finding.toml` says in words what is wrong, and `script.py` shows it. The script ends with 0 once the defect is gone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import ADAPTERS, TRANSFORMATION_NAMES
from onnx_parity.harness.bisecting.history import History

#: Of the clone: the ledger. A search writes its own findings into its folder.
LEDGER = Path("findings")
FILE, SCRIPT = "finding.toml", "script.py"
#: Seconds that a script may take.
_SECONDS = 300.0
#: How many of the last lines that a script prints are recorded.
LINES = 2
#: How Python, and what prints its errors, say that a module is missing.
_MISSING = re.compile(r"No module named '([\w.]+)'")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
#: Numbers that a script prints may differ in their last digits, and addresses and paths from machine to machine.
_VARYING = re.compile(r"0x[0-9a-f]+|\S*/\S+|\d{4}-\d\d-\d\d \S+|:\d+")


class FindingError(Exception):
    """A finding's files cannot be read. The message names the file."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What `finding.toml` says."""

    #: What is wrong, in one sentence.
    title: str
    #: Whose defect it is, as the harness names exporters, runtimes and transformations: `onnxruntime`, `torch_script`.
    culprit: str
    #: `wrong result`, `error`, `invalid model` or `crash`.
    fault: str
    #: What the culprit's documentation says, or the specification that it implements, that makes it a defect.
    defect: str = ""
    link: str = ""
    #: The first version or opset that has it, and the first version without it, as far as they are known.
    since: str = ""
    fixed_in: str = ""
    #: The issue in which it was reported, and what its maintainers said: a link to it, or their words.
    reported: str = ""
    confirmed: str = ""
    #: How it was found.
    found: str = ""
    #: The cells, declarations or files of this project that hold it down or avoid it.
    held_by: tuple[str, ...] = ()
    #: The causes of a search that are this finding.
    causes: tuple[str, ...] = ()
    #: Whether a person has read the finding and run its script.
    read: bool = False
    #: The exit code of the script, the end of what it prints, and the packages that it was run with.
    exit: int = 1
    prints: str = ""
    versions: Mapping[str, str] = {}

    @property
    def history(self) -> History:
        return History(self.since, self.fixed_in)

    @property
    def progress(self) -> Progress:
        """How far it has come on its way to a release without it."""
        told = (
            (self.fixed_in, Progress.FIXED),
            (self.confirmed, Progress.CONFIRMED),
            (self.reported, Progress.REPORTED),
        )
        return next((progress for said, progress in told if said), Progress.UNREPORTED)


class Progress(StrEnum):
    UNREPORTED = "unreported"
    REPORTED = "reported"
    CONFIRMED = "confirmed"
    FIXED = "fixed"


class Now(StrEnum):
    """What became of a finding."""

    THERE = "still there"
    GONE = "gone"
    CHANGED = "changed"
    UNKNOWN = "cannot run"


@dataclass(frozen=True, slots=True)
class Rerun:
    now: Now
    exit: int
    prints: str


def read_findings(folder: Path) -> dict[str, Finding]:
    """The findings of a folder by name."""
    return {path.parent.name: read(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))}


def read(folder: Path) -> Finding:
    path = folder / FILE
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Finding)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise FindingError(f"{path} cannot be read: {error}") from error


def write(folder: Path, finding: Finding, script: str) -> None:
    """Write a finding's files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    (folder / FILE).write_text(as_toml(finding), encoding="utf-8")


def as_toml(finding: Finding) -> str:
    """The text of `finding.toml`. Strings of JSON are strings of TOML."""
    plain = msgspec.to_builtins(finding)
    versions = plain.pop("versions")
    # What is empty is left out, but not an exit code of 0.
    lines = [f"{name} = {_spelled(value)}" for name, value in plain.items() if value or name == "exit"]
    lines += ["", "[versions]", *(f"{name} = {_spelled(version)}" for name, version in versions.items())]
    return "\n".join(lines) + "\n"


def _spelled(value: object) -> str:
    if isinstance(value, str) and "\n" in value and "'''" not in value and value.replace("\n", "").isprintable():
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False)


def rerun(folder: Path, finding: Finding) -> Rerun:
    """Run a finding's script in a process of its own, in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="parity-") as aside:
        shutil.copy(folder / SCRIPT, aside)
        try:
            done = subprocess.run(
                [sys.executable, SCRIPT],
                cwd=aside,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Rerun(Now.CHANGED, 124, f"did not end within {_SECONDS:g} s")
    prints = _last(done.stdout) or _last(done.stderr)
    # Scripts of exporters print the errors that these raise.
    if done.returncode and (missing := _MISSING.search(prints) or _MISSING.search(_last(done.stderr))):
        return Rerun(Now.UNKNOWN, done.returncode, f"the module {missing[1]} is missing")
    if done.returncode == 0:
        return Rerun(Now.GONE, 0, prints)
    same = done.returncode == finding.exit and _plain(prints) == _plain(finding.prints)
    return Rerun(Now.THERE if same else Now.CHANGED, done.returncode, prints)


def _last(text: str) -> str:
    """The last lines of an output, without colours."""
    lines = [line.rstrip()[:300] for line in _COLOUR.sub("", text).splitlines() if line.strip()]
    return "\n".join(lines[-LINES:])


def _plain(text: str) -> str:
    return _VARYING.sub("#", " ".join(text.split()))


def rerun_all(folder: Path, findings: Mapping[str, Finding], processes: int) -> Iterator[tuple[str, Rerun]]:
    """Run the scripts of findings, and yield each with its name in their order."""
    with ThreadPoolExecutor(processes) as pool:
        yield from zip(findings, pool.map(lambda item: rerun(folder / item[0], item[1]), findings.items()), strict=True)


def issue_text(folder: Path, finding: Finding) -> str:
    """The text of an issue for the culprit's tracker."""
    from onnx_parity.harness.judging.issue import Issue

    return Issue(
        title=finding.title,
        defect=finding.defect + (f" ({finding.link})" if finding.link else ""),
        program=(folder / SCRIPT).read_text("utf-8"),
        prints=finding.prints,
        exit=finding.exit,
        versions=finding.versions,
        history=finding.history.words,
    ).text


def slug(text: str) -> str:
    """A folder's name for a cause."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60].strip("_")


def write_outcome(folder: Path, finding: Finding, rerun: Rerun) -> Finding:
    """Make what a script has just printed the finding's recorded state, unless it could not be run or is gone."""
    if rerun.now in (Now.UNKNOWN, Now.GONE):
        return finding
    # `parity --help` reads this file, and the metadata of packages takes as long to import as a tenth of all else.
    from onnx_parity.harness.results.environment import package_versions

    names = dict.fromkeys(("torch", "onnx", "onnxruntime", "onnxscript", *_packages_of(finding.culprit)))
    installed = package_versions(names)
    versions = {name: installed[name] for name in names if name in installed}
    kept = msgspec.structs.replace(finding, exit=rerun.exit, prints=rerun.prints, versions=versions)
    (folder / FILE).write_text(as_toml(kept), encoding="utf-8")
    return kept


def _packages_of(culprit: str) -> tuple[str, ...]:
    """The distributions that a culprit consists of, whose names may be others than its own."""
    from onnx_parity.harness.subjects.runtimes import RUNTIMES
    from onnx_parity.harness.transformations.named import TRANSFORMATIONS

    if culprit in ADAPTERS:
        return RUNTIMES[culprit].packages
    return TRANSFORMATIONS[culprit].packages if culprit in TRANSFORMATION_NAMES else (culprit,)
