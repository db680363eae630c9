"""What there is to be covered: names that depend on the versions of packages alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_parity.harness.results import public_names
from onnx_parity.harness.results.public_names import NameGroup, PublicName, names_for


def test_names_are_listed_once_for_all_runs_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []

    def groups() -> list[NameGroup]:
        listed.append(1)
        return [NameGroup("ONNX", "onnx", [PublicName("Elu@6", "why not")])]

    monkeypatch.setattr(public_names, "_groups", groups)
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        assert names_for(tmp_path / run) == [NameGroup("ONNX", "onnx", [PublicName("Elu@6", "why not")])]
    assert len(listed) == 1
    (written,) = tmp_path.glob(".names-*.json")
    written.write_text("damaged")
    names_for(tmp_path / "one")
    assert len(listed) == 2
    monkeypatch.setattr(public_names, "version", lambda package: "another")
    names_for(tmp_path / "one")
    assert len(listed) == 3


def test_versions_of_operators_have_the_dtypes_of_their_schemas() -> None:
    names = set(public_names._types())
    assert {"Add@7 float32", "Add@14 int8", "And@7 bool", "Elu@22 bfloat16"} <= names
    assert not {"Add@7 int8", "And@7 float32", "Elu@6 bfloat16"} & names


def test_torchvision_registers_its_models_by_these_names() -> None:
    names = list(public_names._torchvision_models())
    assert {"alexnet", "resnet18", "densenet121", "swin_t", "fasterrcnn_resnet50_fpn"} <= set(names)
    assert len(names) == len(set(names))


def test_an_operator_that_consists_of_others_is_none_that_cannot_be_exported() -> None:
    names = {each.name: each for group in public_names._aten() for each in group.names}
    for name in ("aten::addmv_", "aten::absolute", "aten::lerp", "aten::logit", "aten::cudnn_convolution"):
        assert names[name].as_others, name
    assert names["aten::sparse_mask"] == PublicName(
        "aten::sparse_mask", "it has neither a lowering nor a decomposition"
    )
    assert names["aten::elu"] == PublicName("aten::elu", "it has a lowering, which no case reached")


def test_methods_that_are_no_operators_are_listed_and_do_not_count() -> None:
    names = {each.name.rpartition(".")[2]: each for each in public_names._methods()}
    for name in ("register_hook", "backward", "numpy", "share_memory_"):
        assert not names[name].counts and "it is no operator" in names[name].why_not
    for name in ("add", "add_", "view", "item"):
        assert names[name].counts
