"""The runners without Python: each result is told apart, a crash is one test's, and a faulty runtime goes red."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from pathlib import Path

import pytest

from benchmarks.conformance.runners import ADAPTERS, RUNNERS, lacking_for
from onnx_parity.harness.conformance.judging import judge_submission, open_pack
from onnx_parity.harness.conformance.manifest import MANIFEST
from tests.harness.conformance.runners import Run, faulty, in_c, in_js, pretending_in, results
from tests.harness.conformance.submissions import make_pack

HERE = Path(__file__).parent
ELU, ONE, TWO = "Elu-22-float-2x3", "Elu-22-float-1", "Erf-13-float-2x3"
ABS, HALF, INT = "Abs-13-float-2x3", "Abs-13-float16-2x3", "Abs-13-int8-2x3"
IDS = (ELU, ONE, TWO, ABS, HALF, INT)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack(tmp_path_factory.mktemp("packs") / "pack", IDS)


@pytest.fixture(scope="module", params=["c", "js", pytest.param("rust", marks=pytest.mark.slow)])
def pretending(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return pretending_in(request.param, tmp_path_factory.mktemp("runner"))


def test_each_result_is_told_apart_and_is_one_test_s(tmp_path: Path, pack: Path, pretending: Run) -> None:
    out = tmp_path / "out"
    told = f"{ELU}=crashes {ONE}=hangs {TWO}=is-wrong {ABS}=refuses {HALF}=declines"
    ended = pretending(pack, out, "--timeout", "3", PRETEND=told)
    assert ended.returncode == 1, ended.stderr
    assert (
        ended.stdout == "pretending 1.0: 6 tests, 1 right, 3 wrong, crashed or hung, 2 refused, unsupported or absent\n"
    )
    found = results(out)
    assert {id_: result for id_, (result, _) in found.items()} == {
        ELU: "crashed", ONE: "hung", TWO: "wrong", ABS: "refused", HALF: "unsupported", INT: "right",
    }  # fmt: skip
    assert found[ABS][1] == 'no "kernel"' and found[ONE][1] == "it did not end within 3 s"
    assert found[TWO][1].startswith("output 0 at 0: ") and "tolerance" in found[TWO][1]
    judgement = judge_submission(out, open_pack(pack))
    assert {test.id: str(test.result) for test in judgement.tests} == {id_: each for id_, (each, _) in found.items()}


def test_a_damaged_pack_and_a_full_disk_are_not_the_runtime_s_fault(
    tmp_path: Path, pack: Path, pretending: Run
) -> None:
    damaged, out = tmp_path / "pack", tmp_path / "out"
    shutil.copytree(pack, damaged)
    (damaged / f"tests/{ELU}/test_data_set_0/centre_0.f64").write_bytes(b"12345")
    assert pretending(damaged, out, "-k", ELU).returncode == 1
    assert results(out)[ELU][0] == "absent" and "_0.f64" in results(out)[ELU][1]
    assert pretending(pack, tmp_path / "late", "--timeout", "soon").stderr == "--timeout needs a number of seconds.\n"
    if Path("/dev/full").exists():
        full = tmp_path / "full"
        full.mkdir()
        (full / "submission.json").symlink_to("/dev/full")
        ended = pretending(pack, full)
        assert ended.returncode == 2 and ended.stderr.lower().count("no space left on device") == 1, ended.stderr
        assert ended.stderr.count("\n") == 1


def test_other_types_shapes_and_exits_are_told(tmp_path: Path, pack: Path, pretending: Run) -> None:
    told = f"{ELU}=other-type {ONE}=other-shape {TWO}=exits {INT}=is-wrong"
    assert pretending(pack, tmp_path / "out", PRETEND=told).returncode == 1
    found = results(tmp_path / "out")
    assert {id_: found[id_][0] for id_ in (ELU, ONE, TWO, INT)} == {
        ELU: "wrong", ONE: "wrong", TWO: "crashed", INT: "wrong",
    }  # fmt: skip
    assert found[TWO][1] == "its process ended with code 3" and found[INT][1] == "output 0 differs at 3"


def test_a_runner_goes_on_where_it_was_stopped(tmp_path: Path, pack: Path, pretending: Run) -> None:
    out = tmp_path / "out"
    assert pretending(pack, out, PRETEND=f"{ABS}=is-wrong").returncode == 1
    path = out / "results.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:20])
    assert (
        pretending(pack, out, PRETEND="").stdout
        == "pretending 1.0: 6 tests, 5 right, 1 wrong, crashed or hung, 0 refused, unsupported or absent\n"
    )
    assert sorted(results(out)) == sorted(IDS) and results(out)[ABS][0] == "wrong"
    other = make_pack(tmp_path / "other", [ELU])
    refused = pretending(other, out)
    assert (refused.returncode, refused.stderr) == (2, f"{out} was made with another pack.\n")


def test_tests_are_selected_by_the_manifest_and_none_is_no_success(tmp_path: Path, pack: Path, pretending: Run) -> None:
    for number, (options, ids) in enumerate(
        (
            (("--operator", "Erf", "--opset", "13"), {TWO}),
            (("--type", "int8"), {INT}),
            (("-k", "Elu-22-*", "--list", "full"), {ELU, ONE}),
        )
    ):
        assert pretending(pack, tmp_path / str(number), *options).returncode == 0
        assert set(results(tmp_path / str(number))) == ids
    for options in (("-k", "Gone-*"), ("--list", "models"), ("--operator", "Gone")):
        ended = pretending(pack, tmp_path / "none", *options)
        assert (ended.returncode, ended.stderr) == (2, f"No test of {pack} was selected.\n")
    assert pretending(pack, tmp_path / "all", PRETEND=" ".join(f"{id_}=declines" for id_ in IDS)).returncode == 1


def test_bad_input_is_one_line(tmp_path: Path, pack: Path, pretending: Run) -> None:
    def said(folder: Path, *options: str) -> str:
        ended = pretending(folder, tmp_path / "out", *options)
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr
        return ended.stderr

    assert "manifest.json" in said(tmp_path)
    copy = shutil.copytree(pack, tmp_path / "copy")
    manifest = json.loads((pack / MANIFEST).read_text("utf-8"))
    for text in ("{", json.dumps({**manifest, "version": 9}), json.dumps({**manifest, "format": "other"})):
        (copy / MANIFEST).write_text(text)
        assert "manifest.json is n" in said(copy)
    assert "--gone" in said(pack, "--gone", "1")


def test_a_runtime_that_is_not_there_is_one_line(tmp_path: Path, pack: Path) -> None:
    ended = in_c(tmp_path, HERE / "pretending.c")(pack, tmp_path / "out", "--library", "none")
    assert (ended.returncode, ended.stderr) == (2, "there is no library\n")
    if not lacking_for("js"):
        ended = in_js(str(HERE / "pretending.mjs"))(pack, tmp_path / "out", "--modules", "none")
        assert (ended.returncode, ended.stderr.split(": ", 1)[1]) == (2, "Error: there is no library\n")


@pytest.mark.parametrize("runner", ["onnxruntime", "tract", "openvino", *ADAPTERS])
def test_a_runtime_that_is_wrong_at_one_size_of_one_operator_goes_red(tmp_path: Path, pack: Path, runner: str) -> None:
    run = faulty(runner, tmp_path)
    run(pack, tmp_path / "without", FAULT="?")
    found = {id_: result for id_, (result, _) in results(tmp_path / "without").items()}
    assert found[ELU] == found[ABS] == "right"
    assert run(pack, tmp_path / "out", FAULT=ELU).returncode == 1
    assert {id_: result for id_, (result, _) in results(tmp_path / "out").items()} == {**found, ELU: "wrong"}


def test_a_command_line_is_a_runtime_too(tmp_path: Path, pack: Path) -> None:
    """Its outputs are files: they are judged here, and by `parity judge` again."""
    program = tmp_path / "my-runtime"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, shutil, signal, sys\n"
        "if '--version' in sys.argv: print('my-runtime 7.1 (of today)'); sys.exit()\n"
        "model, inputs, outputs = sys.argv[1:]\n"
        "if 'int8' in model: print('int8 is not supported'); sys.exit(1)\n"
        "if 'float16' in model: print('it is broken', file=sys.stderr); sys.exit(1)\n"
        "if 'Elu-22-float-1' in model: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "if 'Abs' not in model: shutil.copy(f'{inputs}/output_0.pb', outputs)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    run, out = in_js("command"), tmp_path / "out"
    ended = run(pack, out, "--command", f"{program} {{model}} {{inputs}} {{outputs}}", "--outputs")
    assert (
        ended.stdout == "my-runtime 7.1: 6 tests, 2 right, 2 wrong, crashed or hung, 2 refused, unsupported or absent\n"
    ), ended.stderr
    found = results(out)
    assert found[INT] == ("unsupported", "int8 is not supported") and found[HALF] == ("refused", "it is broken")
    assert found[ONE] == ("crashed", "its process was ended by SIGSEGV")
    assert found[ABS][0] == "wrong" and "output_0.pb" in found[ABS][1]
    assert (out / "outputs" / TWO / "test_data_set_0/output_0.pb").exists()
    judgement = judge_submission(out, open_pack(pack))
    assert {test.id for test in judgement.tests if test.result == "right"} == {ELU, TWO}


def test_runners_stay_small() -> None:
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in RUNNERS.rglob("*.[chmr]*")}
    assert len(lines) >= 17
    assert max(lines.values()) < 300, lines
