"""`parity repro`: runs one cell and writes a bundle that reproduces it, and the text of an issue."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, expected_errors_in_one_line, find
from onnx_parity.harness.commands.defaults import Places
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

if TYPE_CHECKING:
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.matrix.cells import Cell
    from onnx_parity.harness.record import Record


def repro(
    cell: CellId,
    seed: Seed,
    paths: Places = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write the bundle to. Default: a folder in repro/, named after the cell."),
    ] = None,
    issue: Annotated[
        bool, typer.Option("--issue", help="Print the text of an issue for the tracker of whoever is to blame.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run one cell and write a bundle that reproduces it, whether it passes or fails.

    The bundle holds the model, its inputs, PyTorch's outputs, and a script that runs them where nothing is installed
    but numpy, the runtime, and onnx if the runtime needs it. `parity bisect` finds the releases that fail with it.

    With --issue, the text of an issue is printed: what is wrong, a script, what it prints, and versions. Standard
    error says where it is to be reported. The script is one file if the model is small, and else that of the bundle.

    Exit codes: 0 if the cell passes; 1 if it does not; 2 if there is no such cell.

    Examples:

        parity repro "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime"

        parity repro "vgg16-float32-opset9-cpu-trace-onnxruntime" --out /tmp/vgg && python /tmp/vgg/repro.py

        parity repro "elu[alpha=0.5]-float32-opset9-cpu-trace-openvino" --issue > issue.md
    """
    from onnx_parity.harness.judging.bundle import slug

    with expected_errors_in_one_line():
        suspect = find(cell, paths)
        folder = out or Path("repro") / slug(suspect.id)
        rerun = run_and_bundle(suspect, seed, folder, issue=issue)
        record = rerun.record
        if issue and not rerun.issue:
            why = f", {record.reason}" if record.reason else ""
            refuse(f"{suspect.id}: {record.status.words}{why}. There is nothing to report.")
        told = {"issue": rerun.issue, "tracker": rerun.tracker} if issue else {}
        if as_json:
            print_json({"folder": str(folder), "record": record, **told})
        elif issue:
            print_text(rerun.issue, end_line=False)
            where = f"mend it: {rerun.own}, your own lowering" if rerun.own else f"report it: {rerun.tracker}"
            unknown = "who is to blame is not known"
            print_text(f"bundle: {folder}\n{where if rerun.own or rerun.tracker else unknown}", error=True)
        else:
            lines = [f"{suspect.id}: {record.status} at {record.stage}", *(f"  {line}" for line in rerun.details)]
            print_text("\n".join([*lines, f"bundle: {folder}", f"to reproduce: python {folder / 'repro.py'}"]))
        raise typer.Exit(0 if record.status == "passed" else 1)


@dataclass(slots=True)
class Rerun:
    """A cell that was run again, whose bundle is written."""

    record: Record
    details: list[str]
    #: The text of an issue, if one is asked for and the cell failed, and where it is reported, if that is known.
    issue: str = ""
    tracker: str = ""
    #: The place of the user's own lowering that is to blame.
    own: str = ""


def run_and_bundle(cell: Cell, seed: int, folder: Path, *, issue: bool = False) -> Rerun:
    """Run a cell, and write its bundle before the temporary files of its model are removed."""
    from onnx_parity.exporter.verification.bundle import BundleError, write_bundle
    from onnx_parity.harness.axes import Tier
    from onnx_parity.harness.bisecting.history import histories_of, words_of
    from onnx_parity.harness.judging.bundle import bundle_of
    from onnx_parity.harness.judging.issue import culprit_of, issue_of, tracker_of
    from onnx_parity.harness.judging.outcome import blank_record
    from onnx_parity.harness.localisation.localise import own_lowering
    from onnx_parity.harness.record import Blame
    from onnx_parity.harness.results.environment import describe_run
    from onnx_parity.harness.running.stages import Bench
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    declaration = cell.case.declaration
    project = defaults.project()
    file = os.path.relpath(declaration.file, project.root)
    options = () if seed == defaults.seed() else (f"--parity-seed={seed}",)
    blank = blank_record(cell, file, f"{file}::{cell.case.name}::{cell.id}", worker="repro", options=options)
    also = ("onnxscript", *RUNTIMES[cell.runtime].packages)
    run = describe_run(seed=seed, tier=Tier.FULL, argv=["repro", cell.id], project=project.root, also=also)
    # What `parity bisect` found is kept.
    known = histories_of(folder)
    reruns: list[Rerun] = []

    def keep(outcome: Outcome) -> None:
        record = outcome.onto(blank)
        bundle = msgspec.structs.replace(bundle_of(outcome, record, run), history=known)
        write_bundle(bundle, folder)
        rerun = Rerun(record, outcome.details)
        if issue and record.status == "failed":
            if record.blame is Blame.EXPORTER:
                rerun.own = own_lowering(cell, outcome.aten, seed)
            rerun.issue = issue_of(outcome, record, bundle, folder, words_of(known), own=rerun.own).text
            rerun.tracker = "" if rerun.own else tracker_of(culprit_of(record, outcome.details))
        reruns.append(rerun)

    outcome = Bench(seed).run(cell, ended=keep)
    if not reruns:
        raise BundleError(f"{cell.id} is {outcome.status} at {outcome.stage}: {outcome.reason}")
    return reruns[0]
