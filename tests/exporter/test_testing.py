"""`assert_exports`: what it says of a model that is wrong, refused or right, its bundles, and the page about it."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import onnx_parity
import start
from onnx_parity.testing import assert_exports

ROOT = Path(start.__file__).parent
_FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.elu(x.sin(), alpha=0.5) * 2


def without_alpha(g: Any, self: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return g.op("Elu", self)


WRONG: Any = {torch.ops.aten.elu.default: without_alpha}
X = torch.linspace(-2, 2, 12).view(3, 4)


def test_right_exports_pass_at_every_opset() -> None:
    assert_exports(Net(), (X,), opsets=range(9, 19, 3), dynamic_axes={"x": {0: "batch"}})
    assert_exports(lambda x, *, scale: x * scale, (X,), {"scale": X[:1]})


def test_an_axis_of_what_is_not_there_is_an_error() -> None:
    """`export` warns as torch.onnx does; a test would pass, and have tested one size only."""
    with pytest.raises(onnx_parity.errors.ArgumentError) as raised:
        assert_exports(Net(), (X,), dynamic_axes={"xx": {0: "batch"}})
    assert str(raised.value) == (
        "dynamic_axes names 'xx', which is neither an input (x) nor an output (output): did you mean 'x'?"
    )


def test_a_wrong_model_is_explained(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_exports(Net(), (X,), opsets=(9, 18), custom_translation_table=WRONG, bundles=tmp_path)
    first, *lines = str(raised.value).splitlines()
    assert first == "Net does not export correctly at 2 of 2 opsets:"
    differs, diverges, bundle = lines[:3]
    assert differs.startswith(
        "opset 9: the outputs of the model differ from those of the program for the example inputs: output 0 at (0, "
    )
    assert diverges.startswith("  first wrong value: 'Elu', of aten::elu at ")
    assert "test_testing.py:28: at (0, " in diverges
    assert bundle == f"  bundle: python {tmp_path / 'opset9' / 'repro.py'}"
    assert len(lines) == 6


def test_its_bundle_shows_the_failure_without_the_package(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_exports(Net(), (X,), custom_translation_table=WRONG, bundles=tmp_path)
    folder = tmp_path / "opset18"
    ran = subprocess.run(
        [sys.executable, "-I", folder / "repro.py"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 1, ran.stderr
    assert "again:  pytest 'tests/exporter/test_testing.py::" in ran.stdout
    assert "6 of 12 elements" in ran.stdout
    described = json.loads((folder / "bundle.json").read_text())
    assert described["environment"]["torch"] == torch.__version__
    assert described["again"][0].endswith("::test_its_bundle_shows_the_failure_without_the_package")


def test_without_a_folder_the_bundle_is_in_a_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(AssertionError, match=f"bundle: python {tmp_path}/onnx-parity-.*/opset18/repro.py"):
        assert_exports(Net(), (X,), custom_translation_table=WRONG)


def test_a_bundle_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "opset18").write_text("mine")
    with pytest.raises(AssertionError) as raised:
        assert_exports(Net(), (X,), custom_translation_table=WRONG, bundles=tmp_path)
    assert "output 0 at (0, " in str(raised.value)
    assert "bundle: not written: " in str(raised.value)


def test_refusals_are_named_with_their_opset() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_exports(lambda x: x.relu() + 1, (X.bfloat16(),), opsets=[9, 16])
    assert str(raised.value).startswith(
        "<lambda> does not export correctly at 1 of 2 opsets:\nopset 9: 1 operator cannot be exported to opset 9:\n"
        "  - aten::relu: ONNX's Cast does not take torch.bfloat16 at opset 9 (possible from opset 13)\n      at "
    )


def test_a_program_that_fails_or_an_argument_that_does_not_fit_is_an_error_of_its_own() -> None:
    with pytest.raises(onnx_parity.ArgumentError, match="opsets is empty: give the opsets to export to"):
        assert_exports(Net(), (X,), opsets=())
    with pytest.raises(onnx_parity.OpsetError):
        assert_exports(Net(), (X,), opsets=[6])
    with pytest.raises(onnx_parity.CaptureError):
        assert_exports(lambda x: x @ x, (X,))


def test_random_values_are_not_taken_for_the_first_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_exports(
            lambda x: (torch.rand_like(x), torch.nn.functional.elu(x, 0.5)),
            (X,),
            custom_translation_table=WRONG,
            bundles=tmp_path,
        )
    assert "first wrong value" not in str(raised.value)
    assert "output 1 at (0, " in str(raised.value)


def test_the_fixture_writes_bundles_beside_the_test(assert_exports: Callable[..., None], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_exports(Net(), (X,), custom_translation_table=WRONG)
    assert (tmp_path / "opset18" / "repro.py").exists()


def test_its_error_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(onnx_parity.VerificationError("the outputs differ")))
    assert (str(error), error.trial) == ("the outputs differ", None)


@pytest.mark.slow
def test_the_tests_of_the_page_pass_in_a_folder_of_their_own(tmp_path: Path) -> None:
    files = _FILE.findall((ROOT / "docs" / "exports_in_your_tests.md").read_text(encoding="utf-8"))
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(name for name, _ in files)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "13 passed" in ran.stdout
    # The folder stays as it was: the suite is not one of declarations.
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(name for name, _ in files)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"opset": 17}, TypeError, "unexpected keyword argument 'opset'. Did you mean 'opsets'"),
        (
            {"opsets": "9-13"},
            onnx_parity.ArgumentError,
            r"opsets is '9-13': give numbers, such as 13, \[13, 18\] or range",
        ),
    ],
)
def test_misspelt_opsets(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        assert_exports(torch.relu, (torch.ones(2),), **arguments)
