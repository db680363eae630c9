"""The conformance pack: the same bytes in every process, expected values that are right, and refusals."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

import onnxruntime
import pyarrow
import pytest
from typer.testing import CliRunner

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.cli import app
from onnx_parity.harness.conformance import contents as contents_of_tests
from onnx_parity.harness.conformance import pack
from onnx_parity.harness.conformance.manifest import MANIFEST, changed_files
from onnx_parity.harness.conformance.pack import write_pack
from onnx_parity.harness.conformance.planning import Planned, plan_cases, plan_cells
from onnx_parity.harness.conformance.values import UnfitError, compare_outputs, read_expected, read_value
from onnx_parity.harness.running import stages

ROOT = Path(__file__).parents[3]


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def planned(pattern: str) -> list[Planned]:
    return [each for each in plan_cases() if fnmatchcase(each.id, pattern)]


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    core = [each for each in planned("[AE][dl][du]-*") if "core" in each.lists]
    manifest = write_pack(tmp_path / "here", core).manifest
    command = [sys.executable, "-m", "onnx_parity", "pack", str(tmp_path / "there"), "-k", "[AE][dl][du]-*"]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    here = contents(tmp_path / "here")
    assert here == contents(tmp_path / "there")
    listed = {f"{test.folder}/{name}": digest for test in manifest.tests for name, digest in test.sha256.items()}
    assert {name for test in manifest.tests for name in test.operators} == {"Elu", "Add"}
    assert listed == {name: digest for name, digest in here.items() if name.startswith("tests/")}
    for name in ("first", "second"):
        assert pack.pack_archive(tmp_path / "here", tmp_path / f"{name}.tar.zst") > 1000
    assert (tmp_path / "first.tar.zst").read_bytes() == (tmp_path / "second.tar.zst").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("list_", "select"), [("core", "*"), ("node-tests", "onnx.a*")])
def test_the_oldest_numpy_writes_the_same_bytes(tmp_path: Path, list_: str, select: str) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "older")]
    subprocess.run([*install, "numpy==2.0.2"], check=True, capture_output=True)
    for name, path in (("here", str(ROOT)), ("there", f"{tmp_path / 'older'}{os.pathsep}{ROOT}")):
        command = [sys.executable, "-m", "onnx_parity", "pack", str(tmp_path / name), "--list", list_, "-k", select]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    here = contents(tmp_path / "here")
    assert len(here) > 100 and here == contents(tmp_path / "there")


def test_the_archive_is_the_folder_again(tmp_path: Path) -> None:
    write_pack(tmp_path / "pack", planned("Elu-6-float-*"))
    pack.pack_archive(tmp_path / "pack", tmp_path / "pack.tar.zst")
    with pyarrow.CompressedInputStream(str(tmp_path / "pack.tar.zst"), "zstd") as compressed:
        plain = io.BytesIO(compressed.read())
    with tarfile.open(fileobj=plain) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert contents(tmp_path / "out/pack") == contents(tmp_path / "pack")


def test_the_manifest_follows_its_schema_and_the_lists_are_those_of_the_manifest(tmp_path: Path) -> None:
    manifest = write_pack(tmp_path, planned("Elu-*-float-*")).manifest
    written = json.loads((tmp_path / MANIFEST).read_text("utf-8"))
    schema = json.loads((tmp_path / "manifest.schema.json").read_text("utf-8"))
    assert set(written) == set(schema["$defs"]["Manifest"]["required"])
    for test in written["tests"]:
        assert set(test) == set(schema["$defs"]["Test"]["required"]) == set(schema["$defs"]["Test"]["properties"])
    assert all("description" in each for name, each in schema["$defs"].items())
    at = {test.id for test in manifest.tests if test.opset == 22}
    assert set((tmp_path / "mustpass/opset-22/core.txt").read_text("utf-8").split()) == at != set()
    assert len((tmp_path / "mustpass/full.txt").read_text("utf-8").split()) == len(manifest.tests)


def test_a_pack_that_was_stopped_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = planned("Elu-22-float-*")
    whole = tmp_path / "whole"
    write_pack(whole, tests)

    def stopping() -> Iterator[Planned]:
        yield from tests[:5]
        raise KeyboardInterrupt

    folder = tmp_path / "pack"
    with pytest.raises(KeyboardInterrupt):
        write_pack(folder, stopping())
    assert not (folder / MANIFEST).exists()
    (folder / "tests" / tests[0].id / "model.onnx").write_bytes(b"cut")
    assert write_pack(folder, tests).kept == 4
    assert contents(folder) == contents(whole)
    with pytest.raises(KeyboardInterrupt):
        write_pack(folder, stopping())
    with monkeypatch.context() as patched:
        patched.setattr(pack, "_fingerprint", lambda: "other code")
        assert write_pack(folder, tests).kept == 0


def test_a_pack_that_was_stopped_in_its_archive_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = planned("Elu-22-float-*")
    folder, archive = tmp_path / "pack", tmp_path / "pack.tar.zst"

    def stop(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pack, "pack_archive", stop)
        with pytest.raises(KeyboardInterrupt):
            write_pack(folder, tests, archive)
    assert write_pack(folder, tests, archive).kept == len(tests)
    again = tmp_path / "again" / "pack"
    again.parent.mkdir()
    write_pack(again, tests, again.parent / "pack.tar.zst")
    assert archive.read_bytes() == (again.parent / "pack.tar.zst").read_bytes()


def test_a_cell_that_can_be_no_test_is_counted_with_its_reason(tmp_path: Path) -> None:
    def unfit() -> NoReturn:
        raise UnfitError("it is too large")

    written = write_pack(tmp_path, [*planned("Elu-6-float-2x3*"), Planned("big", ("full",), unfit)])
    assert len(written.manifest.tests) == 2 and dict(written.left_out) == {"it is too large": 1}


def test_models_of_several_opsets_share_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "EXTERNAL_WEIGHTS", 1000)
    file = tmp_path / "large.py"
    file.write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, model\n"
        "net = model(lambda: torch.nn.Linear(64, 64), floats(4, 64), tier='smoke')\n"
    )
    tests = write_pack(tmp_path / "pack", plan_cells([file], Tier.SMOKE, 0)).manifest.tests
    assert len(tests) > 1 and {test.folder for test in tests} == {"tests/net-float32"}
    assert {test.model for test in tests} == {f"opset{test.opset}.onnx" for test in tests}
    (weights,) = (tmp_path / "pack/tests/net-float32").glob("*.bin")
    assert all(weights.name in test.sha256 for test in tests)
    for test in tests:
        assert not list(changed_files(tmp_path / "pack", test))
        session = onnxruntime.InferenceSession(tmp_path / "pack" / test.folder / test.model)
        data = tmp_path / "pack" / test.folder / "test_data_set_0"
        output = session.run(None, {test.inputs[0].name: read_value(data / "input_0.pb", "tensor(float)")})
        assert not compare_outputs(test.outputs, output, [read_expected(test.outputs[0], data, 0)])
    monkeypatch.setattr(contents_of_tests, "MOST_WEIGHTS", 10)
    written = write_pack(tmp_path / "none", plan_cells([file], Tier.SMOKE, 0))
    assert not written.manifest.tests and set(written.left_out) == {"its weights have more than 0 MiB"}


def test_models_of_the_matrix_are_tests_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, model, op\n"
        "twice = op(lambda x: x + x, floats(2, 3))\n"
        "net = model(lambda: torch.nn.Linear(3, 2), floats(4, 3), tier='smoke')\n"
        "wide = op(lambda x: torch.special.i0(x), floats(2))\n"
    )
    written = write_pack(tmp_path / "pack", plan_cells([file], Tier.SMOKE, 0))
    tests = {test.id: test for test in written.manifest.tests}
    net = tests["net-float32-opset26"]
    assert (net.operators, net.lists, net.data_sets) == ({"Gemm": 13}, ["full", "models"], 2)
    assert tests["twice-float32-opset9"].source == f"{tmp_path.name}/mine.py"
    for test in tests.values():
        session = onnxruntime.InferenceSession(tmp_path / "pack" / test.folder / test.model)
        data = tmp_path / "pack" / test.folder / "test_data_set_1"
        feeds = {value.name: read_value(data / f"input_{n}.pb", value.type) for n, value in enumerate(test.inputs)}
        expected = [read_expected(test.outputs[0], data, 0)]
        assert not compare_outputs(test.outputs, session.run(None, feeds), expected), test.id


def test_a_pack_is_written_again_and_other_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    runner = CliRunner()
    for select in ("Elu-*", "Elu-22-float-*"):
        assert runner.invoke(app, ["pack", str(folder), "-k", select]).exit_code == 0
    assert len(list((folder / "tests").iterdir())) == 10
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("keep")
    refused = runner.invoke(app, ["pack", str(tmp_path / "mine"), "-k", "Elu-22-float-*"])
    assert (refused.exit_code, refused.output.split("mine")[1]) == (
        2,
        " is not empty and holds no pack. Name a new folder.\n",
    )
    assert runner.invoke(app, ["pack", str(folder), "-k", "Nothing-*"]).exit_code == 2
