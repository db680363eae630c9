"""A declaration file, and pytest processes that run it, for the tests of the plug-in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_records
from tests.forked import run
from tests.harness.faults import LEAN

__all__ = ["PASSING", "Run", "run_pytest"]

PASSING = """
import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
relu = op(F.relu, floats(2, 3), dynamic={"x": {0: "batch"}})
_private = op(F.relu, floats(2, 3))
"""


@dataclass(frozen=True)
class Run:
    """A pytest process that has ended: its exit code, its output, and the folder of its run."""

    code: int
    text: str
    folder: Path

    def records(self) -> dict[str, Record]:
        return {record.name: record for record in read_records(self.folder)}


def run_pytest(root: Path, *options: str) -> Run:
    """Run pytest with the plug-in in a folder."""
    ended = run(root, "pytest", *LEAN, *options)
    return Run(ended.code, ended.text, root / "runs" / "last")
