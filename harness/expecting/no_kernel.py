"""What onnxruntime cannot run of the models of a folder's cells: a list of the kernels that it lacks.

Such a cell is run on onnx.reference instead. A lowering that breaks may emit an operator that onnxruntime has no kernel
for where it emitted others before, and would pass all the same. So `no_kernel.toml` lists, beside the declarations,
which kernels are lacking. A cell that lacks another one fails. `parity expect --update` adds those of a run:

    tier = "default"
    onnxruntime = "==1.31.*"
    lacking = [
        "Mod(13) of float16",
    ]

The file is about this project's exporter, cells of this tier, and these versions of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet

from onnx_parity.harness.axes import PARITY, Tier
from onnx_parity.harness.expecting.expectations import read_if_there
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.results.environment import has_version

FILE = "no_kernel.toml"
_HEAD = """\
# The kernels that onnxruntime lacks for the models of these cells, which onnx.reference runs instead. Written by
# `parity expect --update`, and to be reviewed: a new line may be a lowering that broke.
"""


class NoKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, read."""

    tier: Tier
    lacking: tuple[str, ...]
    #: The versions of onnxruntime that it holds for, in pip's notation; empty for all.
    onnxruntime: str = ""

    def holds_here(self) -> bool:
        """Whether it applies to the onnxruntime of this environment."""
        return has_version("onnxruntime", self.onnxruntime)


def load(path: Path) -> NoKernel | None:
    return read_if_there(path, _of_tables)


def _of_tables(tables: dict[str, Any]) -> NoKernel:
    file = msgspec.convert(tables, NoKernel)
    SpecifierSet(file.onnxruntime)
    return file


@cache
def load_once(path: Path) -> NoKernel | None:
    return load(path)


def judge_record(record: Record, directory: Path, is_in_tier: Callable[[Tier], bool]) -> Record:
    """The record with the status that the file beside its declaration gives it."""
    if record.status is not Status.PASSED or not lacks_kernel(record):
        return record
    file = load_once(directory / FILE)
    if file is None or record.lacks in file.lacking or not file.holds_here() or not is_in_tier(file.tier):
        return record
    reason = f"onnxruntime has no kernel for {record.lacks}, and {FILE} does not list it"
    return msgspec.structs.replace(
        record, status=Status.FAILED, stage=Stage.LOAD, blame=Blame.EXPORTER, reason=reason, error=record.reason
    )


def lacks_kernel(record: Record) -> bool:
    """Whether such a file applies to the cell: it gave the right results, but not in onnxruntime. What is drawn differs
    with the seed."""
    right = record.status is Status.PASSED or (record.status is Status.FAILED and FILE in record.reason)
    drawn = record.case.endswith("[drawn]")
    return bool(record.lacks) and right and record.exporter == PARITY and not drawn


def write_text(tier: Tier, lacking: Iterable[str], versions: str) -> str:
    """The text of the file."""
    lines = "".join(f'    "{each}",\n' for each in sorted(set(lacking)))
    return f'{_HEAD}tier = "{tier}"\nonnxruntime = "{versions}"\nlacking = [\n{lines}]\n'
