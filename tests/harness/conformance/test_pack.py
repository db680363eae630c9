"""The conformance pack: the same bytes in every process, expected values that are right, and refusals."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.cli import app
from onnx_parity.harness.conformance.pack import MANIFEST, declared_cases, write_pack
from onnx_parity.harness.onnx_node import OnnxCase, versions_of

ROOT = Path(__file__).parents[3]
#: Where onnx.reference differs from the specification: docs/conformance.md has the reasons.
DIFFERING = {
    ("Erf", "double"), ("Gelu", "double"), ("Gelu", "float16"), ("HardSwish", "double"), ("Softsign", "float16"),
    ("Softsign", "float"), ("Softsign", "double"), ("Softsign", "bfloat16"),
}  # fmt: skip


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run_reference(case: OnnxCase) -> str:
    """What differs in onnx.reference, or nothing."""
    model = case.make_model()
    onnx.checker.check_model(model, full_check=True)
    feeds = {f"x{number}": value for number, value in enumerate(case.draw_inputs())}
    try:
        outputs = ReferenceEvaluator(model).run(None, feeds)
    except TypeError as error:
        return str(error)
    return judge(list(outputs), [case.expect_output()]).detail


@pytest.fixture(scope="module")
def cases() -> list[OnnxCase]:
    return list(declared_cases())


def test_ids_are_unique_and_every_version_since_7_is_there(cases: list[OnnxCase]) -> None:
    assert len({case.id for case in cases}) == len(cases) > 1500
    found = defaultdict(set)
    for case in cases:
        found[case.declared.operator].add(case.version)
    assert len(found) == 41
    assert found == {operator: set(versions_of(operator)) for operator in found}


def test_the_reference_agrees_with_onnx_but_where_it_is_known_to_differ(cases: list[OnnxCase]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx.reference computes in numpy, which warns of narrow dtypes.
        differing = {(case.declared.operator, case.type) for case in cases if run_reference(case)}
    assert differing == DIFFERING


def test_a_slightly_wrong_operator_is_red(cases: list[OnnxCase]) -> None:
    floats = [case for case in cases if case.type == "float" and case.shapes[0] == (2, 3)]
    missed = []
    for case in floats:
        expected = case.expect_output()
        wrong = expected.value.copy()
        worst = np.unravel_index(int(np.abs(wrong).argmax()), wrong.shape)
        wrong[worst] *= np.float32(1.0001)
        if judge([wrong], [expected]).passed:
            missed.append(case.id)
    assert len(floats) > 60
    assert missed == []


def test_another_process_writes_the_same_bytes(tmp_path: Path, cases: list[OnnxCase]) -> None:
    chosen = [case for case in cases if case.declared.operator in ("Elu", "Add")]
    manifest = write_pack(tmp_path / "here", chosen)
    program = (
        "import sys; from pathlib import Path; from onnx_parity.harness.conformance.pack import *; "
        "write_pack(Path(sys.argv[1]), [c for c in declared_cases() if c.declared.operator in ('Elu', 'Add')])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "there")], check=True, env=environment)
    here = contents(tmp_path / "here")
    assert here == contents(tmp_path / "there")
    listed = {f"{test.folder}/{name}": digest for test in manifest.tests for name, digest in test.sha256.items()}
    assert listed == {name: digest for name, digest in here.items() if name != MANIFEST}


def test_inputs_stay_as_they_are(cases: list[OnnxCase]) -> None:
    case = next(case for case in cases if case.id == "Elu-6-double-2x3")
    assert case.draw_inputs()[0].ravel().tolist() == [
        2.189537525177002,
        3.131516933441162,
        0.3986630439758301,
        0.8521251678466797,
        -3.30483341217041,
        -0.589663028717041,
    ]


def test_a_pack_is_written_again_and_other_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    runner = CliRunner()
    for select in ("Elu-*", "Elu-22-float-*"):
        assert runner.invoke(app, ["pack", str(folder), "-k", select]).exit_code == 0
    assert len(list((folder / "tests").iterdir())) == 8
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("keep")
    refused = runner.invoke(app, ["pack", str(tmp_path / "mine"), "-k", "Elu-22-float-*"])
    assert (refused.exit_code, refused.output.split("mine")[1]) == (
        2,
        " is not empty and holds no pack. Name a new folder.\n",
    )
    assert runner.invoke(app, ["pack", str(folder), "-k", "Nothing-*"]).exit_code == 2
