"""What the expectation files should hold for them to agree with a run: a part of `parity expect`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_parity.harness.axes import THEN, Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import warn_of_damage
from onnx_parity.harness.expecting import no_kernel, unsupported
from onnx_parity.harness.expecting.expectation_edits import Edit, edit
from onnx_parity.harness.expecting.expectations import file_of, is_explained_elsewhere, subject_of
from onnx_parity.harness.expecting.unsupported_edits import Group, collect_known, is_refused, write_text
from onnx_parity.harness.judging.issue import tracker_of
from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.store import read_info, read_records

if TYPE_CHECKING:
    from onnx_parity.harness.matrix.cells import Cell


def proposed_edits(run: Path) -> Mapping[Path, Edit]:
    """The expectation files that the run does not agree with, and what they should hold."""
    project = defaults.project()
    versions = read_info(run).packages
    records: defaultdict[Path, list[Record]] = defaultdict(list)
    refused: defaultdict[Path, list[Record]] = defaultdict(list)
    subjects: dict[Path, str] = {}
    whole = read_records(run)
    warn_of_damage(whole)
    for record in whole:
        folder = defaults.from_here(project.root / record.file).parent
        subject = subject_of(record.runtime, record.transforms.split(THEN) if record.transforms else ())
        refused[folder].append(record)
        if not is_explained_elsewhere(record, folder):
            records[folder / file_of(subject)].append(record)
            subjects[folder / file_of(subject)] = subject
    # The failures of onnxruntime, which has no file of its own, are ours until somebody has looked at them.
    trackers = {path: tracker_of(subject) if subject else "" for path, subject in subjects.items()}
    edits = {path: edit(text_of(path), path, found, versions, trackers[path]) for path, found in records.items()}
    info = read_info(run)
    for folder, found in refused.items():
        file = folder / unsupported.FILE
        edits[file] = _edit_of_refusals(file, found, info)
        edits[folder / no_kernel.FILE] = _edit_of_kernels(folder / no_kernel.FILE, found, info)
    return {path: proposed for path, proposed in edits.items() if proposed.text != text_of(path)}


def _edit_of_refusals(path: Path, records: Sequence[Record], info: RunInfo) -> Edit:
    """What `unsupported.toml` should hold. A file that there is not yet is for the tier and the torch of the run."""
    text, before = text_of(path), unsupported.load(path)
    told = [(record, refused) for record in records if (refused := is_refused(record)) is not None]
    if all(not refused if before is None else before.agrees(record, refused=refused) for record, refused in told):
        return Edit(text)
    release = re.match(r"\d+\.\d+", info.packages.get("torch", ""))
    tier, torch = (before.tier, before.torch) if before else (Tier(info.tier), f"=={release[0]}.*" if release else "")
    cells = {cell.id: (group, cell.opset) for group, cell in _cells_beside(path, tier)}
    groups = collect_known((record for record, _ in told if record.cell in cells), before, cells.values())
    changed = {
        (record.family, record.name)
        for record, refused in told
        if before is not None and not before.agrees(record, refused=refused)
    }
    new = write_text(tier, torch, groups, before, changed)
    return Edit(new, [f"what the {tier} tier refuses has changed. Review it: a new line may be a lowering that broke"])


def _edit_of_kernels(path: Path, records: Sequence[Record], info: RunInfo) -> Edit:
    """What `no_kernel.toml` should hold: what it lists, and the kernels that cells of the run lacked."""
    text, before = text_of(path), no_kernel.load(path)
    listed = set(before.lacking) if before else set[str]()
    told = [record for record in records if no_kernel.lacks_kernel(record) and record.lacks not in listed]
    if not told:
        return Edit(text)
    tier = before.tier if before else Tier(info.tier)
    cells = {cell.id for _, cell in _cells_beside(path, tier)}
    found = {record.lacks for record in told if record.cell in cells}
    if not found:
        return Edit(text)
    release = re.match(r"\d+\.\d+", info.packages.get("onnxruntime", ""))
    versions = before.onnxruntime if before else f"=={release[0]}.*" if release else ""
    new = no_kernel.write_text(tier, found | listed, versions)
    return Edit(new, ["onnxruntime lacks more kernels. Review it: a new line may be a lowering that broke"])


def _cells_beside(path: Path, tier: Tier) -> Iterator[tuple[Group, Cell]]:
    """The cells of the tier in the folder of a file."""
    from onnx_parity.harness.axes import Selection
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    defaults.project().make_importable()
    for name, declaration in declared_under(path.parent):
        for cell in cells_of(name, declaration, Selection(tier=tier)):
            yield Group(cell.case.family, cell.case.label, cell.dtype, cell.shapes), cell


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
