"""`parity doctor`: installed packages with their versions, and missing ones with what does not work without them."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.results import diagnosis
from onnx_parity.harness.results.diagnosis import Check, Health, Need, diagnose, healthy
from onnx_parity.harness.subjects import cuda


def found(what: str) -> Check:
    return next(check for check in diagnose() if check.what == what)


def test_what_is_there_has_its_version() -> None:
    assert found("torch") == Check("torch", Health.OK, metadata.version("torch"))
    assert found("backend onnxruntime.backend").health is Health.OK


def test_a_function_that_torch_has_renamed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("functions replaced while recording") == Check("functions replaced while recording", Health.OK, "")
    monkeypatch.delattr(torch.backends.mha, "get_fastpath_enabled")
    check = found("functions replaced while recording")
    assert check.health is Health.MISSING
    assert check.found.startswith(f"torch {torch.__version__} has no function torch.backends.mha.get_fastpath_enabled")


def test_what_is_missing_has_its_price_and_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda._missing_here.cache_clear()
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert found("device cuda") == Check(
        "device cuda",
        Health.MISSING,
        "no CUDA device",
        "the CUDA cells are absent: one for every case, at the newest opset that onnxruntime supports",
        "a CUDA device, a CUDA build of torch, onnxruntime-gpu",
    )
    cuda._missing_here.cache_clear()
    assert found("backend caffe2.python.onnx.backend").found == (
        "caffe2.python.onnx.backend cannot be imported: ModuleNotFoundError: No module named 'caffe2'"
    )


def test_an_optional_package_that_is_not_there_is_missing_and_a_needed_one_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optional = Need("nowhere", "nowhere-to-be-found", "nothing much is lost", "leave it")
    needed = Need("neither", "nor-this-one")
    monkeypatch.setattr(diagnosis, "NEEDS", (optional, needed))
    checks = list(diagnose())
    assert checks[1:] == [
        Check("nowhere-to-be-found", Health.MISSING, "not installed", "nothing much is lost", "leave it"),
        Check("nor-this-one", Health.BROKEN, "not installed", "nothing works", "pip install nor-this-one"),
    ]
    assert not healthy(checks)
    assert healthy(checks[:2])


def test_a_runtime_that_is_there_but_does_not_import_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openvino.py").write_text("raise ImportError('libtbb.so.12: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    diagnosis._import_error.cache_clear()
    check = next(check for check in diagnosis._runtimes() if check.what == "runtime openvino")
    diagnosis._import_error.cache_clear()
    assert check.health is Health.BROKEN
    assert check.found.endswith("cannot be imported: ImportError: libtbb.so.12: cannot open shared object file")
    assert check.remedy == "pip install --force-reinstall openvino"


def test_each_runtime_that_is_missing_has_a_command_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_parity.harness.subjects.adapters.adapter.find_spec", lambda module: None)
    checks = {check.what: check for check in diagnosis._runtimes()}
    assert checks["runtime tract"] == Check(
        "runtime tract", Health.MISSING, "tract is not installed", "the cells of --runtimes tract are absent",
        "pip install tract",
    )  # fmt: skip
    assert checks["runtime iree"].remedy == "pip install iree-base-compiler iree-base-runtime"


def test_a_package_that_does_not_import_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    monkeypatch.setattr(diagnosis, "NEEDS", (Need("onnx_ir", "onnx-ir"),))
    _, check = diagnose()
    assert check.health is Health.BROKEN
    assert check.found.startswith(f"{metadata.version('onnx-ir')} cannot be imported: ModuleNotFoundError: ")


@pytest.mark.slow
def test_the_command_prints_a_line_each_and_speaks_json() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert f"ok       torch                               {metadata.version('torch')}" in result.output.splitlines()
    checks = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert {"what": "torch", "health": "ok", "found": metadata.version("torch"), "costs": "", "remedy": ""} in checks


def test_a_broken_installation_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "NEEDS", (Need("neither", "nor-this-one"),))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert result.output.splitlines()[1:] == [
        "BROKEN   nor-this-one                        not installed",
        "         without it: nothing works",
        "         to get it: pip install nor-this-one",
    ]
