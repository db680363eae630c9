"""Tests of the benchmark of latency: which file is the better peer's, what is slower, and what is printed."""

from __future__ import annotations

import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.jobs import Latency
from benchmarks.latency.__main__ import app
from benchmarks.latency.table import Setting, better_peer, fusions, is_slower, latencies, ratio_to_better_peer
from benchmarks.subjects import Contender

SETTING = Setting(18, 8)


def latency(ours: list[float], scripted: list[float], dynamo: list[float]) -> Latency:
    times = {Contender.OURS: ours, Contender.TORCHSCRIPT: scripted, Contender.DYNAMO: dynamo}
    return Latency({subject: each for subject, each in times.items() if each}, {})


def test_the_ratio_is_to_the_faster_peer() -> None:
    measured = latency([2.0, 3.0, 9.0], [4.0, 5.0, 6.0], [1.0, 2.0, 3.0])
    assert better_peer(measured) is Contender.DYNAMO
    assert ratio_to_better_peer(measured) == 2.0
    assert is_slower(measured)


@pytest.mark.parametrize(("ours", "slower"), [(1.0, False), (1.02, False), (1.03, True)])
def test_what_is_within_noise_is_not_slower(ours: float, slower: bool) -> None:
    assert is_slower(latency([ours], [1.0], [1.5])) is slower


def test_without_a_peer_nothing_is_slower() -> None:
    assert better_peer(latency([1.0], [], [])) is None
    assert not is_slower(latency([1.0], [], []))


def test_the_table_marks_what_is_slower() -> None:
    console = Console(width=120)
    with console.capture() as printed:
        console.print(latencies({("bert", SETTING): latency([1.5], [1.0], []), ("t5", SETTING): latency([1], [2], [])}))
    lines = printed.get().splitlines()
    (bert,) = (line for line in lines if "bert" in line)
    (t5,) = (line for line in lines if "t5" in line)
    (mean,) = (line for line in lines if "mean" in line)
    assert [each.strip() for each in bert.split("│")[1:-1]] == [
        "bert", "opset 18, batch 8", "1.50", "1.500", "—", "1.500 *"
    ]  # fmt: skip
    assert "*" not in t5
    assert "0.866" in mean


def test_fusions_are_told_apart_where_they_differ() -> None:
    measured = Latency(
        {},
        {},
        {
            Contender.OURS: {"com.microsoft.Gelu": 4, "com.microsoft.SkipLayerNormalization": 8},
            Contender.DYNAMO: {"com.microsoft.Gelu": 4, "com.microsoft.FusedMatMul": 2},
        },
    )
    assert list(fusions({("bert", SETTING): measured})) == [
        "bert, opset 18, batch 8: all: Gelu 4",
        "    exporter: SkipLayerNormalization 8",
        "    torch.onnx dynamo=True: FusedMatMul 2",
    ]


def test_an_unknown_model_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["--models", "no_such_network"], env={"COLUMNS": "1000"})
    assert result.exit_code == 2
    assert "nothing matches 'no_such_network'; there are resnet50" in result.output
