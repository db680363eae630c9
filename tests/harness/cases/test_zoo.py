"""The models that a package lists: cases without a declaration of their own, built when they run, absent if missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

from onnx_parity.harness.axes import Device, Dtype, Selection, Shapes, Tier
from onnx_parity.harness.case import DeclarationError, floats, ints
from onnx_parity.harness.cases.program import build
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.judging.reference import consult
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.record import Status
from onnx_parity.harness.results.public_names import PublicName, _models_of
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.zoo import FULL_OPSETS, Built, CannotBuildError, Source, every, first_that_runs


def _names() -> Sequence[str]:
    return ["linear", "embedding", "broken"]


def _build(name: str) -> Built:
    match name:
        case "linear":
            return Built(nn.Linear(3, 2), {"x": floats(2, 3)}, {"batch": (1, 7)})
        case "embedding":
            return Built(nn.Embedding(9, 4), {"ids": ints(2, 5, high=9)}, {"batch": (3,), "length": (1,)})
    return Built(nn.Identity(), first_that_runs([(nn.Linear(3, 2), {"x": floats(2, 4)})])[1], {})


_CPU = (Device.CPU,)
_DYNAMIC = {"x": {0: "batch"}, "ids": {0: "batch", 1: "length"}}


def source(package: str = "torch", few: Sequence[str] = ("linear",)) -> Source:
    return every(package, _names, _build, extra="zoo", few=few, dynamic=_DYNAMIC)


def outcomes(declared: Source, tier: Tier, opset: int = 18) -> dict[str, Outcome]:
    bench = Bench(0)
    cells = list(cells_of("models", declared, Selection(tier=tier, opsets=(opset,), devices=_CPU)))
    return {f"{cell.case.label} {cell.shapes}": bench.run(cell) for cell in cells}


def test_the_full_tier_runs_all_that_the_package_lists() -> None:
    ran = outcomes(source(), Tier.FULL)
    assert {name: outcome.status for name, outcome in ran.items()} == {
        "models[linear] static": Status.PASSED,
        "models[linear] dynamic": Status.PASSED,
        "models[embedding] static": Status.PASSED,
        "models[embedding] dynamic": Status.PASSED,
        "models[broken] static": Status.ABSENT,
        "models[broken] dynamic": Status.ABSENT,
    }
    assert "rerun_sizes" in ran["models[embedding] dynamic"].seconds
    assert "PyTorch does not run it with inputs made up for it: x: RuntimeError" in ran["models[broken] static"].reason


def test_what_cannot_be_built_is_tried_once() -> None:
    tried: list[str] = []

    def refuses(name: str) -> Built:
        tried.append(name)
        raise CannotBuildError("it has no small size")

    ran = outcomes(replace(source(), names=lambda: ["linear"], build=refuses), Tier.FULL)
    assert {outcome.reason for outcome in ran.values()} == {"it has no small size"}
    assert len(ran) == 2
    assert tried == ["linear"]


def test_other_tiers_run_few() -> None:
    default = cells_of("models", source(), Selection(tier=Tier.DEFAULT, devices=_CPU))
    assert [(cell.case.label, cell.opset, cell.shapes) for cell in default] == [
        ("models[linear]", 18, Shapes.STATIC), ("models[linear]", 18, Shapes.DYNAMIC)
    ]  # fmt: skip
    assert not list(cells_of("models", source(), Selection(tier=Tier.SMOKE, devices=_CPU)))
    every_opset = cells_of("models", source(), Selection(tier=Tier.FULL, devices=_CPU), "models[linear]".__eq__)
    assert [cell.opset for cell in every_opset if cell.shapes is Shapes.STATIC] == list(FULL_OPSETS)


def test_a_package_that_is_not_installed_is_absent() -> None:
    ((_, outcome), *_) = outcomes(source("no_such_package"), Tier.DEFAULT).items()
    assert outcome.status is Status.ABSENT
    assert outcome.reason == "no_such_package is not installed: install the extra 'zoo'"


def test_few_that_the_package_does_not_list_are_a_mistake() -> None:
    with pytest.raises(DeclarationError, match=r"torch does not list bilinear\. Correct few="):
        list(source(few=("bilinear",)).cases("models"))


def test_a_model_brings_its_own_tolerance() -> None:
    def built(name: str) -> Built:
        exact = Built(nn.Linear(3, 2), {"x": floats(2, 3)}, {})
        return replace(exact, tolerance=0.25, because="a test") if name == "coarse" else exact

    declared = every("torch", lambda: ["coarse", "exact"], built, extra="zoo", dynamic={})
    tolerances = []
    for case in declared.cases("models"):
        reference = consult(build(case, Dtype.FLOAT32, Device.CPU, run_seed=5))
        (expected,) = reference.example.expected
        assert expected.tolerance is not None
        tolerances.append(float(expected.tolerance.min()))
    assert tolerances[0] > 0.25 > 1e-3 > tolerances[1]
    with pytest.raises(DeclarationError, match="tolerance= needs a because="):
        Built(nn.Linear(3, 2), {}, {}, tolerance=0.1)


def test_an_axis_that_one_model_fixes() -> None:
    def built(name: str) -> Built:
        return Built(nn.Embedding(9, 4), {"ids": ints(2, 5, high=9)}, {"batch": (3,), "length": (1,)}, ("length",))

    declared = every("torch", lambda: ["embedding"], built, extra="zoo", dynamic=_DYNAMIC)
    program = build(next(declared.cases("models")), Dtype.FLOAT32, Device.CPU, run_seed=5)
    assert program.declaration.asked(Shapes.DYNAMIC) == {"ids": {0: "batch"}}
    assert [str(sizes) for sizes in program.other_sizes()] == ["batch=3"]


def test_the_same_weights_each_time() -> None:
    case = next(source().cases("models"))
    one, other = (build(case, Dtype.FLOAT32, Device.CPU, run_seed=5).module for _ in range(2))
    assert isinstance(one, nn.Linear) and isinstance(other, nn.Linear)
    assert torch.equal(one.weight, other.weight)


def test_the_first_inputs_that_run() -> None:
    linear = nn.Linear(3, 2)
    assert first_that_runs((linear, {"x": floats(2, size)}) for size in (4, 3, 5))[1] == {"x": floats(2, 3)}


def test_random_results_are_absent() -> None:
    dropout = nn.Dropout(0.5)
    dropout.eval = lambda: dropout  # type: ignore[method-assign]
    with pytest.raises(CannotBuildError, match="it gives other results each time"):
        first_that_runs([(dropout, {"x": floats(20, low=1, high=2)})])


def test_batch_norms_have_the_statistics_of_four_calls() -> None:
    def built(name: str) -> Built:
        norm = nn.BatchNorm1d(3, momentum=0.2)
        return Built(nn.Sequential(nn.Linear(3, 3), norm), {"x": floats(64, 3, low=5, high=9)}, {})

    declared = every("torch", lambda: ["normed"], built, extra="zoo", dynamic={"x": {0: "batch"}})
    program = build(next(declared.cases("models")), Dtype.FLOAT32, Device.CPU, run_seed=5)
    linear, norm = program.module.children()
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
    assert norm.momentum == 0.2 and not norm.training
    calls = [linear(program.makers["x"].make(seed, Dtype.FLOAT32)) for seed in range(4)]
    torch.testing.assert_close(norm.running_mean, torch.stack([each.mean(0) for each in calls]).mean(0))
    variances = torch.stack([each.var(0) for each in calls]).mean(0)
    torch.testing.assert_close(norm.running_var, variances.clamp(min=variances.mean()))


def test_a_package_that_cannot_be_imported_is_one_absent_case_and_one_line() -> None:
    def names() -> Sequence[str]:
        raise RuntimeError("Failed to import its image processors:\nNo module named 'torchvision'")

    declared = every("torch", names, _build, extra="zoo", few=("linear",), dynamic=_DYNAMIC)
    ran = outcomes(declared, Tier.FULL)
    assert {outcome.status for outcome in ran.values()} == {Status.ABSENT}
    (line,) = {outcome.reason for outcome in ran.values()}
    assert line == (
        "torch cannot be imported here: RuntimeError: Failed to import its image processors: "
        "No module named 'torchvision'"
    )
    assert _models_of("models", declared) == [PublicName("models", line, counts=False)]
