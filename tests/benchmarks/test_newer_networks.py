"""Tests of the benchmark over newer networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.child import measure_time
from benchmarks.jobs import TimeJob
from benchmarks.newer_networks import nodes
from benchmarks.newer_networks.__main__ import MOST_PROCESSES, PROCESSES, Figures, app, measured, slower
from benchmarks.subjects import EXPORTERS, Contender


@pytest.mark.parametrize("name", ["transformer_encoder", pytest.param("gru", marks=pytest.mark.slow)])
def test_a_network_is_exported(name: str, tmp_path: Path) -> None:
    job = TimeJob(Contender.OURS, name, path=str(tmp_path / "model.onnx"), dynamic=True, warm=1)
    assert measure_time(job).first.cpu > 0
    assert (tmp_path / "model.onnx").stat().st_size > 0


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["--only", "no_such_network"], env={"COLUMNS": "1000"})
    assert result.exit_code == 2
    assert "nothing matches 'no_such_network'; there are" in result.output


def test_an_unknown_peer_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["--only", "gru", "--peer", "onnx"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "there are torchscript, dynamo" in result.output


def test_models_that_are_slower_than_in_torchscript_are_named() -> None:
    fast, slow = {Contender.OURS: 1.0, Contender.TORCHSCRIPT: 2.0}, {Contender.OURS: 2.0, Contender.TORCHSCRIPT: 1.0}
    alone = {Contender.OURS: 9.0}
    assert slower({"static": {"bert": fast, "gru": alone}, "first static": {"bert": slow}}) == [
        "bert (first static, 0.50x)"
    ]


@pytest.mark.slow
def test_one_peer_can_be_measured_alone(tmp_path: Path) -> None:
    kept = tmp_path / "times.jsonl"
    result = CliRunner().invoke(app, ["--only", "^gru$", "--peer", "torchscript", "--kept", str(kept)])
    assert "static, torch.onnx dynamo=False" in result.output
    assert "dynamo=True:" not in result.output
    assert len(kept.read_text().splitlines()) == 4


@pytest.mark.slow
def test_nodes_are_counted_beside_those_of_the_peers(tmp_path: Path) -> None:
    ways = [nodes.Way(18, dynamic=False), nodes.Way(23, dynamic=True)]
    ours = nodes.measured(Contender.OURS, "transformer_encoder", ways, tmp_path)
    assert all(isinstance(count, int) and count > 20 for count in ours.values())
    # The TorchScript exporter ends before opset 23.
    assert list(nodes.measured(Contender.TORCHSCRIPT, "transformer_encoder", ways, tmp_path)) == ways[:1]


def test_more_nodes_than_the_better_peer_are_marked() -> None:
    assert nodes.has_more({Contender.OURS: 5, Contender.TORCHSCRIPT: 9, Contender.DYNAMO: 4})
    assert not nodes.has_more({Contender.OURS: 4, Contender.TORCHSCRIPT: 9, Contender.DYNAMO: "it failed"})
    assert nodes.has_more({Contender.OURS: "it failed", Contender.TORCHSCRIPT: 9})
    assert not nodes.has_more({Contender.OURS: 5, Contender.TORCHSCRIPT: "it failed", Contender.DYNAMO: "it failed"})
    console = Console(width=120)
    with console.capture() as printed:
        found = {"bert": {nodes.Way(23, dynamic=True): {Contender.OURS: 1200, Contender.DYNAMO: 1100}}}
        console.print(nodes.table(found, [nodes.Way(23, dynamic=True)]))
    assert "1,200 / — / 1,100 *" in printed.get()


@pytest.mark.parametrize(("peer", "processes"), [(1.1, MOST_PROCESSES), (0.9, MOST_PROCESSES), (2.0, PROCESSES)])
def test_exporters_that_are_about_as_fast_are_measured_more_often(peer: float, processes: int) -> None:
    seconds = {Contender.OURS: 1.0, Contender.TORCHSCRIPT: peer, Contender.DYNAMO: 9.0}
    order: list[Contender] = []

    def measure(subject: Contender) -> Figures:
        order.append(subject)
        later = 0.01 * order.count(subject)
        return Figures(warm=5 * seconds[subject] - later, first=seconds[subject] - later, nodes=3)

    found = measured(EXPORTERS, {}, measure)
    both = [Contender.OURS, Contender.TORCHSCRIPT]
    assert order[:5] == [*EXPORTERS, *both] and order[3:] == both * (processes - 1)
    own = found[Contender.OURS]
    assert isinstance(own, Figures)
    assert own.first == pytest.approx(1 - 0.01 * processes) and own.warm == pytest.approx(5 - 0.01 * processes)


def test_a_failure_is_not_measured_again_and_a_kept_peer_decides_how_often() -> None:
    asked: list[Contender] = []

    def measure(subject: Contender) -> Figures | str:
        asked.append(subject)
        return "fails" if subject is Contender.DYNAMO else Figures(1.0, 1.0, 3)

    found = measured([Contender.OURS, Contender.DYNAMO], {Contender.TORCHSCRIPT: Figures(9.0, 1.1, 3)}, measure)
    assert found == {Contender.OURS: Figures(1.0, 1.0, 3), Contender.DYNAMO: "fails"}
    assert asked.count(Contender.OURS) == MOST_PROCESSES and asked.count(Contender.DYNAMO) == 1
