"""Runs on a cluster of several raylets on this machine, which are killed: the records are those of a local run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cluster import faults
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_lines

pytest.importorskip("ray", reason="needs Ray: pip install 'onnx-parity[ray]'")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faults.make_project(tmp_path_factory.mktemp("project"), slow=5)


@pytest.fixture(scope="module")
def wanted(project: Path) -> dict[str, Record]:
    return faults.local_records(project, workers=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[faults.Cluster]:
    with faults.cluster_of(2) as cluster:
        yield cluster


def test_the_records_are_those_of_a_local_run(
    project: Path, cluster: faults.Cluster, wanted: dict[str, Record]
) -> None:
    assert faults.undisturbed(project, cluster, wanted) == []


def test_no_cell_is_lost_with_a_node(project: Path, cluster: faults.Cluster, wanted: dict[str, Record]) -> None:
    assert faults.node_loss(project, cluster, wanted, random.Random(1)) == []


def test_no_cell_is_lost_with_the_driver(project: Path, cluster: faults.Cluster, wanted: dict[str, Record]) -> None:
    assert faults.driver_loss(project, cluster, wanted, random.Random(2)) == []


def test_a_full_object_store_stops_nothing(project: Path, cluster: faults.Cluster, wanted: dict[str, Record]) -> None:
    assert faults.full_store(project, cluster, wanted) == []


def test_nodes_of_another_version_are_refused(project: Path, cluster: faults.Cluster) -> None:
    assert faults.other_versions(project, cluster) == []


def test_a_lost_head_is_told(project: Path, wanted: dict[str, Record]) -> None:
    assert faults.lost_head(project, wanted, random.Random(3)) == []


def test_a_cluster_of_this_machine(project: Path, wanted: dict[str, Record]) -> None:
    run = faults.start(project, "--on", "ray", "-n", "2")
    assert run.end() == 1, run.text
    assert run.folder is not None
    assert faults.compared(run.folder, wanted) == []
    assert "node1 (" in run.text
    assert (run.folder / "nodes.jsonl").read_text().count("\n") == 1
    assert not read_lines(run.folder).damage
