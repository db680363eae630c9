"""The benchmark that runs PyTorch's own tests: where it finds them, what it makes of them, what it counts."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.torch_tests import __main__ as command
from benchmarks.torch_tests import source
from benchmarks.torch_tests.cases import TorchTest, record_of
from benchmarks.torch_tests.figures import show, to_mend
from onnx_parity.harness.axes import ONNXRUNTIME, Capture
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Blame, Record, Stage, Status

#: Tests in the form of torch's.
TESTS = """
import unittest
import onnx_test_common
import parameterized
import torch
from pytorch_test_common import LEAST
from torch.library import define, impl, register_fake
from torch.onnx import verification


@parameterized.parameterized_class(attrs=(), input_values=(), class_name_func=onnx_test_common.parameterize_class_name)
class TestONNXRuntime(onnx_test_common._TestONNXRuntime):
    def test_right(self):
        class Scaled(torch.nn.Module):
            def forward(self, x, times: int):
                return x * times, times + 1

        self.run_test(Scaled(), (torch.ones(2), 3), input_names=["x", "times"], dynamic_axes={"x": [0]},
                      additional_test_inputs=[(torch.ones(5), 4)])

    def test_refused(self):
        class Inverse(torch.nn.Module):
            def forward(self, x):
                return torch.fft.fft(x).angle() + torch.special.erfcx(x), torch.ops.of_tests.nothing(x)

        define("of_tests::nothing", "(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
        impl("of_tests::nothing", "CompositeExplicitAutograd", lambda x: x.clone())
        register_fake("of_tests::nothing", lambda x: x.clone())
        self.run_test(Inverse(), (torch.ones(4),))

    def test_of_one_size(self):
        class Sizes(torch.nn.Module):
            def forward(self, x):
                return x.new_zeros(x.shape[1 : x.size(2)])

        self.run_test(Sizes(), (torch.ones(1, 2, 3, 4),), input_names=["x"], dynamic_axes={"x": [2]})

    def test_wrong_in_torch(self):
        self.run_test(torch.nn.Linear(3, 2), (torch.ones(4),))

    def test_skipped(self):
        if self.opset_version < LEAST:
            raise unittest.SkipTest("too low")

    def test_by_itself(self):
        import io
        file = io.BytesIO()
        torch.onnx.export(torch.nn.ReLU(), (torch.tensor([-1.0, 1.0]),), file, opset_version=self.opset_version)
        (y,) = verification._run_ort(verification._ort_session(file), (torch.tensor([-1.0, 1.0]),))
        assert y.tolist() == [0, 1]
"""


def _record(
    exporter: str, status: Status, test: str = "test_a", reason: str = "", opset: int = 13, blame: Blame | None = None
) -> Record:
    cell = TorchTest(exporter, opset, test, Capture.TRACE).cell(0)
    return record_of(Outcome(cell, ONNXRUNTIME, Stage.COMPARE, status, reason, blame=blame))


def test_what_is_to_be_mended() -> None:
    refused = _record("parity", Status.UNSUPPORTED, reason="no kernel for 3 axes")
    assert to_mend([refused]) == []
    assert to_mend([refused, _record("torch_script", Status.PASSED)]) == [refused]
    assert to_mend([refused, _record("torch_script", Status.PASSED, "test_b")]) == []
    assert to_mend([refused, _record("torch_script", Status.PASSED, reason="wrong at another size: axis 0")]) == []
    late = _record("parity", Status.UNSUPPORTED, reason="If (from opset 14)")
    elsewhere = _record("torch_script", Status.PASSED)
    assert to_mend([late, elsewhere]) == [late]
    assert to_mend([late, elsewhere, _record("parity", Status.PASSED, opset=14)]) == []
    assert to_mend([refused, elsewhere, _record("parity", Status.PASSED, opset=14)]) == [refused]
    wrong = _record("parity", Status.FAILED, "test_b", "output 0 has shape (2,) from the runtime, (3,) from torch")
    rounded = _record("parity", Status.FAILED, "test_c", "output 0 at (0,)", blame=Blame.PRECISION)
    theirs = _record("torch_script", Status.FAILED, "test_b")
    assert to_mend([wrong, rounded, theirs, _record("parity", Status.ABSENT)]) == [wrong]
    text = io.StringIO()
    show([refused, wrong], Console(file=text, width=140))
    assert text.getvalue().splitlines()[0] == "2 tests, 2 programs"
    why = "output 0 has shape (2,) from the runtime, (3,) from torch"
    assert f"failed: test_b[program=0] compare: 1 cell, opset 13, float32\n      {why}" in text.getvalue()
    title = "refused as by the others, or they are right only at the sizes of the test, or ONNX has it later; or wrong"
    assert (
        f"{title} by the runtime or by rounding: \n  unsupported: test_a[program=0] compare: 1 cell" in text.getvalue()
    )


def test_a_folder_without_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no route to host")

    app = typer.Typer()
    app.command()(command.main)
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 2
    words = " ".join(result.output.split())
    assert f"{tmp_path.name} has no test_pytorch_onnx_onnxruntime.py. To get it: git clone" in words
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", fails)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "cannot be fetched (<urlopen error no route to host>). Get them by hand: git clone" in " ".join(
        result.output.split()
    )
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.slow
def test_tests_in_the_form_of_torchs(tmp_path: Path) -> None:
    for name in source.FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("LEAST = 99\n")
    (tmp_path / source.TESTS).write_text(TESTS)
    app = typer.Typer()
    app.command()(command.main)
    kept = tmp_path / "outcomes.jsonl"
    asked = [str(tmp_path / source.TESTS), "--opsets", "13", "--exporters", "parity,torch_script", "--json", str(kept)]
    result = CliRunner().invoke(app, asked)
    records = command._read(kept)
    found = {(each.exporter, each.name, each.capture): each.status for each in records}
    ours = {test.removeprefix("test_"): status for (exporter, test, capture), status in found.items()
            if exporter == "parity" and capture == Capture.TRACE}  # fmt: skip
    assert ours == {
        "right": Status.PASSED, "refused": Status.UNSUPPORTED, "wrong_in_torch": Status.ABSENT,
        "skipped": Status.ABSENT, "by_itself": Status.PASSED, "of_one_size": Status.UNSUPPORTED,
    }  # fmt: skip
    assert found["parity", "test_of_one_size", Capture.SCRIPT] is Status.PASSED
    reasons = [
        each.reason
        for each in records
        if each.name == "test_of_one_size" and each.reason and each.status is Status.PASSED
    ]
    why = "output 0 has shape (2, 4) from the runtime, (2, 4, 4) from torch (axis 2 of x=4)"
    assert reasons == [f"wrong at another size: {why}"]
    assert found["parity", "test_right", Capture.SCRIPT] is Status.PASSED
    assert found["torch_script", "test_by_itself", Capture.TRACE] is Status.PASSED
    assert result.exit_code == 0, result.output
    again = CliRunner().invoke(app, [*asked, "--only", "nothing"])
    assert again.exit_code == 2 and "nothing matches 'nothing'; there are" in again.output
