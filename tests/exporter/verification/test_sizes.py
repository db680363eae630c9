"""Which sizes a verification tries, what it does where the program refuses them, and how few runs it takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.runtime.sessions import RuntimeSession
from onnx_parity.exporter.verification.reference import Twin
from onnx_parity.exporter.verification.sizes import Sizes


def test_one_axis_is_tried_at_a_larger_prime_and_at_1_2_and_0() -> None:
    assert list(Sizes({"n": 3}).changes()) == [{"n": 5}, {"n": 1}, {"n": 2}, {"n": 0}]
    assert next(Sizes({"n": 1}).changes()) == {"n": 2}
    assert next(Sizes({"n": 1, "m": 4}).changes()) == {"n": 3, "m": 1}
    assert next(Sizes({"n": 224}).changes()) == {"n": 227}


def test_each_of_several_axes_has_each_size_beside_other_ones() -> None:
    changes = list(Sizes({"a": 4, "b": 4, "c": 9}).changes())
    for name, primes in (("a", 5), ("b", 7), ("c", 11)):
        assert {change[name] for change in changes if len(change) == 3} == {primes, 1, 2}
        assert {name: 0} in changes
    assert all(len(set(change.values())) == 3 for change in changes[:3])
    assert {"a": 1, "b": 1, "c": 1} in changes


def test_further_sizes_are_tried_too() -> None:
    sizes = Sizes({"n": 3}, further={"n": [7, 8], "other": [1]})
    assert {"n": 7} in list(sizes.changes()) and {"n": 8} in list(sizes.changes())
    assert sizes.variants({"n": 8}) == [{"n": 8}]


def test_what_depends_on_another_axis_changes_with_it() -> None:
    assert Sizes({"n": 3, "2*n": 6}).variants({"n": 5})[0] == {"n": 5, "2*n": 10}
    assert Sizes({"a": 3, "b": 3}).variants({"a": 0}) == [{"a": 0, "b": 3}, {"a": 0, "b": 0}]
    assert {"past": 5, "new": 1, "all": 6} in Sizes({"past": 4, "new": 1, "all": 5}).variants({"past": 5})
    assert Sizes({"n": 48}).variants({"n": 53}) == [{"n": 53}, {"n": 64}, {"n": 96}]
    assert Sizes({"n": 3}, {"n": (2, 4)}).variants({"n": 0}) == [{"n": 2}]


def test_each_size_is_tried_alone_where_the_program_refuses_several() -> None:
    seen = set()

    def program(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            if x.shape[1] in (1, 2):
                raise ValueError("too narrow")
            seen.add(tuple(x.shape))
        return x.relu()

    axes = {"x": {0: "rows", 1: "columns"}}
    onnx_parity.export(program, (torch.rand(4, 6),), input_names=["x"], dynamic_axes=axes, verify=True)
    assert {rows for rows, _ in seen} == {0, 1, 2, 4, 5} and {columns for _, columns in seen} >= {0, 6, 7}


def test_a_model_that_fails_for_an_empty_batch_is_reported() -> None:
    def first(g: Any, x: Any) -> Any:
        return g.op("Add", g.op("Relu", x), g.op("Mul", g.op("Gather", x, g.const([0])), 0.0))

    with pytest.raises(onnx_parity.VerificationError, match="the model fails for rows=0: "):
        onnx_parity.export(
            torch.relu,
            (torch.rand(3, 4),),
            input_names=["x"],
            dynamic_axes={"x": {0: "rows"}},
            custom_translation_table={"aten::relu": first},
            verify=True,
        )


def test_positions_stay_within_an_axis_that_becomes_shorter() -> None:
    seen = set()

    def program(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            seen.add(len(x))
        return x[rows]

    axes = {"x": {0: "n"}}
    example = torch.rand(4, 3), torch.tensor([3, 0, 2])
    onnx_parity.export(program, example, input_names=["x", "rows"], dynamic_axes=axes, verify=True)
    assert seen >= {1, 2, 4, 5}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many sessions are made, and how often the program is run in float64."""
    counts: Counter[str] = Counter()
    run, load = Twin.outputs, RuntimeSession.__init__

    def count_run(self: Any, inputs: Any) -> Any:
        counts["float64"] += self._dtype is torch.float64
        return run(self, inputs)

    def count_load(self: Any, *args: Any) -> None:
        counts["sessions"] += 1
        load(self, *args)

    monkeypatch.setattr(Twin, "outputs", count_run)
    monkeypatch.setattr(RuntimeSession, "__init__", count_load)
    return counts


def test_a_large_program_is_run_once_in_float64(counted: Counter[str]) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    axes = {"src": {0: "batch", 1: "steps"}}
    onnx_parity.export(model, (torch.randn(2, 7, 32),), input_names=["src"], dynamic_axes=axes, verify=True)
    assert counted["sessions"] == 1 and counted["float64"] <= 2


def test_what_is_as_near_as_any_tolerance_allows_is_not_run_in_float64(counted: Counter[str]) -> None:
    onnx_parity.export(lambda x: x.relu() * 2 + 1, (torch.randn(3, 4),), dynamic_axes={"x": {0: "rows"}}, verify=True)
    assert counted == {"sessions": 1}
