"""Runs on a cluster of several raylets on this machine, which are killed: the records are those of a local run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cluster import faults, raylets
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_lines

pytest.importorskip("ray", reason="needs Ray: pip install 'onnx-parity[ray]'")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faults.make_project(tmp_path_factory.mktemp("project"), slow=5)


@pytest.fixture(scope="module")
def wanted(project: Path) -> dict[str, Record]:
    return raylets.local_records(project, workers=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[raylets.Cluster]:
    with raylets.cluster_of(2) as cluster:
        yield cluster


def test_the_records_are_those_of_a_local_run(
    project: Path, cluster: raylets.Cluster, wanted: dict[str, Record]
) -> None:
    assert faults.undisturbed(project, cluster, wanted) == []


def test_no_cell_is_lost_with_a_node(project: Path, cluster: raylets.Cluster, wanted: dict[str, Record]) -> None:
    assert faults.node_losses(project, cluster, wanted, random.Random(1), 1) == ([], 1)


def test_no_cell_is_lost_with_the_driver(project: Path, cluster: raylets.Cluster, wanted: dict[str, Record]) -> None:
    wrong, _ = faults.driver_loss(project, cluster, wanted, random.Random(2))
    assert wrong == []


def test_a_full_object_store_stops_nothing(project: Path, cluster: raylets.Cluster, wanted: dict[str, Record]) -> None:
    assert faults.full_store(project, cluster, wanted) == []


def test_nodes_of_another_version_are_refused(project: Path, cluster: raylets.Cluster) -> None:
    assert faults.other_versions(project, cluster) == []


def test_a_search_goes_on_without_a_node(project: Path, cluster: raylets.Cluster) -> None:
    assert faults.search_with_node_loss(project, cluster, random.Random(5)) == []


def test_a_run_that_was_sent_is_followed(tmp_path: Path) -> None:
    # It goes on long enough for the first who follows it to leave.
    project = faults.make_project(tmp_path, slow=25)
    assert faults.job(project, raylets.local_records(project, workers=2)) == []


def test_a_lost_head_is_told(project: Path, wanted: dict[str, Record]) -> None:
    assert faults.lost_head(project, wanted, random.Random(3)) == []


def test_a_cluster_of_this_machine(project: Path, wanted: dict[str, Record]) -> None:
    run = raylets.start(project, "--on", "ray", "-n", "2")
    assert run.end() == 1, run.text
    assert run.folder is not None
    assert raylets.compared(run.folder, wanted) == []
    assert "node1 (" in run.text
    assert (run.folder / "nodes.jsonl").read_text().count("\n") == 1
    assert not read_lines(run.folder).damage
