"""Ratios, verdicts and printed tables, from measurements."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
from onnx import helper
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.graphs import operators
from benchmarks.jobs import Clock, Latency, Memory
from benchmarks.results import Lane, MatrixResults, MatrixTime, ModelResults, Results, Timed
from benchmarks.subjects import Contender, Weights
from benchmarks.table import render
from benchmarks.targets import Judgement, TargetStatus, judge


def timed(*seconds: float) -> Timed:
    clocks = [Clock(wall=2 * second, cpu=second) for second in seconds]
    return Timed(first=clocks, warm=clocks)


def results(**models: ModelResults) -> Results:
    return Results(packages={"torch": "2.13.0"}, machine="a machine", models=dict(models))


def verdicts(measured: Results) -> dict[str, Judgement]:
    return {judgement.target: judgement for judgement in judge(measured)}


FASTER = "static export, CPU: at least 10x faster than torch.onnx dynamo=True"


def test_mean_is_geometric_and_of_medians() -> None:
    measured = results(
        alexnet=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1, 1, 9), Contender.DYNAMO: timed(5, 1, 9)}}),
        lstm=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1), Contender.DYNAMO: timed(24.2)}}),
    )
    assert verdicts(measured)[FASTER] == Judgement(FASTER, "11.00x over 2 models", TargetStatus.OK)


def test_one_operator_does_not_lift_the_mean() -> None:
    measured = results(
        lstm=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1), Contender.DYNAMO: timed(9)}}),
        elu=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1), Contender.DYNAMO: timed(900)}}),
    )
    assert verdicts(measured)[FASTER] == Judgement(FASTER, "9.00x over 1 model", TargetStatus.SHORT)


def test_our_failure_is_short_even_where_the_rest_is_fast() -> None:
    measured = results(
        alexnet=ModelResults(times={Lane.STATIC: {Contender.DYNAMO: timed(1)}}),
        lstm=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1), Contender.DYNAMO: timed(90)}}),
    )
    assert verdicts(measured)[FASTER] == Judgement(FASTER, "no figure for alexnet", TargetStatus.SHORT)


def test_peer_s_failure_is_not_our_figure() -> None:
    measured = results(lstm=ModelResults(times={Lane.STATIC: {Contender.OURS: timed(1)}}))
    assert verdicts(measured)[FASTER] == Judgement(FASTER, "", TargetStatus.NOT_MEASURED)


@pytest.mark.parametrize(
    ("extra", "measured", "verdict"),
    [
        (24_000_000, "0.24x at worst, resnet50", TargetStatus.OK),
        (26_000_000, "0.26x at worst, resnet50", TargetStatus.SHORT),
    ],
)
def test_memory_is_judged_by_the_worst_model(extra: int, measured: str, verdict: TargetStatus) -> None:
    def model(extra: int, floor: int, weights: int) -> ModelResults:
        ours = {Weights.INLINE: Memory(weights=weights, extra=extra)}
        floors = {Weights.EXTERNAL: Memory(weights=weights, extra=floor)}
        return ModelResults(memory={Contender.OURS: ours, Contender.FLOOR: floors})

    # Not even the floor keeps the bound on the LSTM: what is measured there is not the weights.
    all_of = results(
        resnet50=model(extra, 7_000_000, 100_000_000),
        vgg16=model(4_000_000, 4_000_000, 500_000_000),
        lstm=model(4_000_000, 3_000_000, 9_000_000),
    )
    target = "extra peak memory, inline: at most 0.25x the weights"
    assert verdicts(all_of)[target] == Judgement(target, measured, verdict)


def test_nodes_are_compared_with_the_better_peer() -> None:
    counts = {Contender.OURS: 12, Contender.TORCHSCRIPT: 30, Contender.DYNAMO: 10}
    target = "nodes: no more than the better peer"
    judged = verdicts(results(lstm=ModelResults(nodes=counts)))[target]
    assert judged == Judgement(target, "1.20x at worst, lstm", TargetStatus.SHORT)


def test_latency_is_that_of_the_best_session() -> None:
    # Ours lay badly in memory once, a peer's twice.
    latency = Latency(
        {Contender.OURS: [1, 2, 1], Contender.DYNAMO: [2, 2, 1], Contender.TORCHSCRIPT: [2, 4, 4]}, wrong={}
    )
    target = "onnxruntime latency: no worse than the better peer (3% of noise allowed)"
    judged = verdicts(results(elu=ModelResults(latency=latency)))[target]
    assert judged == Judgement(target, "1.00x at worst, elu", TargetStatus.OK)


def test_matrix_is_judged_by_the_whole_command() -> None:
    measured = results()
    measured.matrix = MatrixResults(
        operators=MatrixTime(cells=6200, seconds=20), failures={"everything": "interrupted"}
    )
    judged = verdicts(measured)
    rate, tier = (
        "matrix: over 300 cells a second on operators at opsets 7 to 26",
        "matrix: the default tier under 4 minutes",
    )
    assert judged[rate] == Judgement(rate, "310 a second, 6200 cells", TargetStatus.OK)
    assert judged[tier] == Judgement(tier, "pytest failed", TargetStatus.SHORT)


def test_nodes_of_branches_count() -> None:
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])] * 2, "inner", [], [])
    outer = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    graph: onnx.GraphProto = helper.make_graph([outer], "outer", [], [])
    assert operators(graph).total() == 5


def test_tables_show_ratios_failures_and_verdicts() -> None:
    times = {Lane.STATIC: {Contender.OURS: timed(0.5), Contender.FLOOR: timed(0.25)}}
    failures = {"torch.onnx dynamo=True, static": "ValueError: no [bold]"}
    measured = results(lstm=ModelResults(times=times, failures=failures))
    console = Console(width=160, file=io.StringIO())
    console.print(render(measured, judge(measured)))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert "│ lstm │ 0.5000 (1.0000) │ 0.2500 (0.5000) │ 0.50x │ — │ — │ — │ — │" in lines
    assert "│ lstm │ torch.onnx dynamo=True, static │ ValueError: no [bold] │" in lines
    assert "│ static export, CPU: within 2.5x of the floor │ 2.00x over 1 model │ ok │" in lines


def test_unknown_model_is_named_with_those_that_there_are() -> None:
    answer = CliRunner().invoke(app, ["--models", "lstm,resnet5"])
    assert answer.exit_code == 2
    words = " ".join(answer.output.replace("│", " ").split())
    assert "nothing matches 'resnet5'; there are alexnet, resnet18, resnet50, vgg16, densenet121, lstm, elu" in words


@pytest.mark.parametrize("name", ["missing/x.json", "."])
def test_a_place_that_no_file_can_be_written_to_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("benchmarks.__main__.measure", lambda *_, **__: pytest.fail("it was measured"))
    answer = CliRunner().invoke(app, ["--json", str(tmp_path / name)])
    assert answer.exit_code == 2
    assert "cannot be written: name a file in a folder that exists" in " ".join(answer.output.replace("│", " ").split())
