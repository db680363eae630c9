"""A worker on a node, without Ray: it collects what it is told to run, hands out each record once, and says how it
ends.
"""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from onnx_parity.harness.axes import EVERY_OPSETS, Tier
from onnx_parity.harness.cluster.messages import Answered, Asked, Piece, WorkerStart, decoded, encoded
from onnx_parity.harness.cluster.node_worker import NodeWorker, facts_of
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.results.environment import describe_run

_CASES = """
import ctypes
import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

def crashes(x):
    ctypes.string_at(0)

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
crash = op(crashes, floats(2, 3))
relu = op(F.relu, floats(2, 3))
wrong = op(F.elu, floats(40, 40), tolerance=1e-30, because="no rounding is within it")
"""


def nodeid(name: str, opset: int = 18, attributes: str = "") -> str:
    return f"cases.py::{name}::{name}{attributes}-float32-opset{opset}-cpu-trace-onnxruntime"


class Driven:
    """A worker, asked as the coordinator asks it."""

    def __init__(self, root: Path) -> None:
        info = describe_run(seed=3, tier=Tier.DEFAULT, argv=(), project=root)
        start = WorkerStart(
            "node1-1", str(root), ".", ("-q", "--parity-on=ray", "cases.py"), msgspec.json.encode(info).decode(),
            "runs/home", {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": None},
        )  # fmt: skip
        self.worker = NodeWorker(encoded(start))
        self.facts = facts_of(self.worker.facts())
        self._number = self._got = 0
        self._piece = False

    def ask(self, run: list[str], give_back: int = 0) -> Answered:
        self._number += 1
        asked = encoded(Asked(self._number, run, give_back, self._got, self._piece, 20.0))
        answered = decoded(self.worker.exchange(asked), Answered)
        assert decoded(self.worker.exchange(asked), Answered) == answered, "what was lost on its way is said again"
        self._got += answered.size
        self._piece = answered.piece is not None
        return answered

    def records(self, run: list[str]) -> Iterator[Record | Piece]:
        """Run cells; their records, and the pieces of their bundles."""
        left = len(run)
        answered = self.ask(run)
        while True:
            for line in zlib.decompress(answered.lines).splitlines() if answered.size else ():
                left -= 1
                yield msgspec.json.decode(line, type=Record)
            if answered.piece is not None:
                yield answered.piece
            assert not answered.ended
            if not left and answered.piece is None:
                return
            answered = self.ask([])


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    root = tmp_path_factory.mktemp("project")
    (root / "cases.py").write_text(_CASES)
    driven = Driven(root)
    yield driven
    assert driven.worker.close() is not None


@pytest.mark.slow
def test_cells_are_collected_and_run_as_they_are_named(driven: Driven) -> None:
    assert driven.facts.packages["onnx"]
    wanted = [nodeid("elu", 7, "[alpha=0.5]"), nodeid("elu", 18, "[alpha=0.5]"), nodeid("relu")]
    found = [each for each in driven.records(wanted) if isinstance(each, Record)]
    assert [record.nodeid for record in found] == wanted
    assert {record.status for record in found} == {Status.PASSED}
    assert {record.worker for record in found} == {"node1-1"}
    assert {record.options for record in found} == {("--parity-seed=3",)}


def test_a_crash_is_the_outcome_of_its_cell(driven: Driven) -> None:
    found = [each for each in driven.records([nodeid("crash"), nodeid("relu", 16)]) if isinstance(each, Record)]
    assert [record.status for record in found] == [Status.CRASHED, Status.PASSED]
    assert found[0].reason == "was killed by SIGSEGV in stage reference"


def test_a_bundle_is_handed_out_in_pieces(driven: Driven) -> None:
    record, *pieces = driven.records([nodeid("wrong")])
    assert isinstance(record, Record)
    assert record.status is Status.FAILED
    assert f"bundle: runs/home/{record.bundle}" in record.message
    assert f"{record.bundle}/model.onnx" in [piece.path for piece in pieces if isinstance(piece, Piece)]


def test_cells_that_have_not_begun_are_given_back(driven: Driven) -> None:
    wanted = [nodeid("elu", opset, "[alpha=1.0]") for opset in EVERY_OPSETS[1]]
    answered = driven.ask(wanted, give_back=100)
    assert answered.back
    assert answered.back == wanted[len(wanted) - len(answered.back) :]
    ran = zlib.decompress(answered.lines).count(b"\n") if answered.size else 0
    left = len(wanted) - len(answered.back) - ran
    while left:
        left -= zlib.decompress(driven.ask([]).lines).count(b"\n")
    assert left == 0


def test_a_pytest_that_is_killed_is_told(driven: Driven) -> None:
    os.kill(driven.worker._child._process.pid, signal.SIGKILL)
    answered = driven.ask([nodeid("relu", 9)])
    assert answered.ended == "its pytest was killed by SIGKILL (as the system does when memory runs out)"
