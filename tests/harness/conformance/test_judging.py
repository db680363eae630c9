"""Submissions: every result is counted as what it is, outputs are judged here, and bad input is one line."""

from __future__ import annotations

import json
import shutil
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner, Result

from onnx_parity.harness import conformance
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.cli import app
from onnx_parity.harness.conformance.judging import Judgement, judge_submission, open_pack
from onnx_parity.harness.conformance.manifest import MANIFEST, PackError
from onnx_parity.harness.conformance.planning import plan_cases, plan_cells, plan_node_tests
from onnx_parity.harness.conformance.submission import Waiver
from onnx_parity.harness.conformance.values import read_value
from tests.harness.conformance.submissions import IDS, make_pack, submit

ELU, ONE, DOUBLE, ABS = IDS
TODAY = date(2026, 6, 1)
WAIVER = {
    "id": "Elu-22-float-*",
    "reason": "fixed in 1.3",
    "link": "issue 7",
    "until": "2026-06-30",
    "versions": ["1.2*"],
}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack(tmp_path_factory.mktemp("packs") / "pack")


def judged(folder: Path, pack: Path) -> Judgement:
    return judge_submission(folder, open_pack(pack), TODAY)


def by_id(judgement: Judgement) -> dict[str, str]:
    return {test.id: str(test.result) for test in judgement.tests}


def test_no_two_results_are_counted_as_one(tmp_path: Path, pack: Path) -> None:
    for first, second in (("right", "refused"), ("wrong", "crashed"), ("hung", "unsupported")):
        judgement = judged(submit(tmp_path / first, pack, {ELU: first, ONE: second}), pack)
        assert by_id(judgement) == {ELU: first, ONE: second, DOUBLE: "absent", ABS: "absent"}
        assert judgement.scores["core"].results == {first: 1, second: 1, "absent": 2}
        assert judgement.conforms == (first == "right")
    nothing = judged(submit(tmp_path / "nothing", pack, {}), pack)
    assert nothing.scores["core"].results == {"absent": 4} and not nothing.conforms


def test_outputs_in_files_are_judged_here(tmp_path: Path, pack: Path) -> None:
    folder = submit(tmp_path / "files", pack, dict.fromkeys(IDS, "ran"))
    assert set(by_id(judged(folder, pack)).values()) == {"right"}
    path = folder / "outputs" / ELU / "test_data_set_0/output_0.pb"
    value = np.array(read_value(path, "tensor(float)"))
    value[1, 2] += np.float32(1e-5)
    path.write_bytes(numpy_helper.from_array(value).SerializeToString())
    (folder / "outputs" / ONE / "test_data_set_0/output_0.pb").write_bytes(b"\xff\xff")
    (folder / "outputs" / ABS / "test_data_set_0/output_0.pb").unlink()
    found = {test.id: (str(test.result), test.reason) for test in judged(folder, pack).tests}
    assert found[ELU][0] == "wrong" and found[ELU][1].startswith("output 0 at (1, 2): runtime ")
    assert found[ONE][0] == "wrong" and "test_data_set_0/output_0.pb cannot be read" in found[ONE][1]
    assert found[ABS][0] == "wrong" and found[DOUBLE] == ("right", "")


def test_a_runner_is_not_believed_where_its_outputs_are_there(tmp_path: Path, pack: Path) -> None:
    folder = submit(tmp_path / "lies", pack, {ELU: "ran", ONE: "ran"})
    path = folder / "outputs" / ELU / "test_data_set_0/output_0.pb"
    path.write_bytes(numpy_helper.from_array(np.zeros((2, 3), np.float32)).SerializeToString())
    lines = [{"id": ELU, "result": "right"}, {"id": ONE, "result": "wrong"}]
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judgement = judged(folder, pack)
    assert {by_id(judgement)[id_] for id_ in (ELU, ONE)} == {"wrong", "right"}
    assert judgement.notes == [
        f"{ELU} is wrong by its outputs, and right by results.jsonl.",
        f"{ONE} is right by its outputs, and wrong by results.jsonl.",
    ]


def test_a_waiver_covers_failures_until_its_date_and_for_its_versions(tmp_path: Path, pack: Path) -> None:
    results = {ELU: "wrong", ONE: "crashed", DOUBLE: "right", ABS: "unsupported"}
    other = {**WAIVER, "id": "Abs-*"}
    absent = {**WAIVER, "id": "Tan-*"}
    folder = submit(tmp_path / "waived", pack, results, [WAIVER, other, absent])
    judgement = judged(folder, pack)
    assert judgement.conforms and judgement.scores["core"].waived == 2
    assert judgement.scores["core"].results == {"wrong": 1, "crashed": 1, "unsupported": 1, "right": 1}
    assert next(test.waived for test in judgement.tests if test.id == ELU) == "fixed in 1.3 (issue 7)"
    unused = "The waiver for Abs-* covers nothing: the tests that it names do not fail in a way that it covers."
    assert judgement.notes[0] == unused
    assert judgement.notes[1:] == ["Waivers that name no test of this pack, 1 of 3: Tan-*."]
    assert not judge_submission(folder, open_pack(pack), date(2026, 7, 1)).conforms
    later = submit(tmp_path / "later", pack, results, [WAIVER], version="1.3")
    assert not judged(later, pack).conforms


def test_a_waiver_covers_several_patterns_and_the_failures_that_it_names(tmp_path: Path, pack: Path) -> None:
    results = {ELU: "wrong", ONE: "crashed", DOUBLE: "wrong", ABS: "right"}
    narrow = {**WAIVER, "id": [ELU, ONE, DOUBLE], "results": ["wrong"]}
    judgement = judged(submit(tmp_path / "narrow", pack, results, [narrow]), pack)
    assert [test.id for test in judgement.tests if test.waived] == [ELU, DOUBLE]
    right = {**WAIVER, "id": ABS, "results": ["right"]}
    assert not any(test.waived for test in judged(submit(tmp_path / "right", pack, results, [right]), pack).tests)
    assert [test.id for test in judgement.tests if test.counts_against] == [ONE]
    assert judged(submit(tmp_path / "wide", pack, results, [{**narrow, "results": []}]), pack).conforms


def test_a_field_that_no_waiver_has_is_refused(tmp_path: Path, pack: Path) -> None:
    misspelt = {**WAIVER, "result": ["crashed"]}
    with pytest.raises(PackError, match="unknown field `result`"):
        judged(submit(tmp_path / "misspelt", pack, {ABS: "wrong"}, [misspelt]), pack)


@pytest.mark.slow
def test_the_waivers_that_are_kept_here_follow_the_schema_and_name_what_is_there() -> None:
    kept = {path.stem: msgspec.json.decode(path.read_bytes(), type=list[Waiver])
            for path in Path(conformance.__file__).parent.glob("waivers/*.json")}  # fmt: skip
    assert kept.keys() == {"onnxruntime", "tract", "openvino"}
    waivers = [each for of_runtime in kept.values() for each in of_runtime]
    root = Path(__file__).parents[3]
    there = [*plan_cases(), *plan_node_tests(), *plan_cells([root / "op_cases" / "quantization.py"], Tier.FULL, 0)]
    # Of other files, whose cells would take long to plan, the declarations are compared.
    declared = [f"{name}-" for name, _ in declared_under(root / "op_cases")]
    known = [*(planned.id for planned in there), *declared]
    for each in waivers:
        for pattern in each.ids:
            assert any(fnmatchcase(name, pattern) for name in known), pattern
        assert each.link.startswith("https://") or (root / each.link).exists(), each.link


def command(folder: Path, pack: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["judge", str(folder), "--pack", str(pack), *options])


def test_the_command_prints_lists_and_what_is_wrong(tmp_path: Path, pack: Path) -> None:
    ended = command(submit(tmp_path / "bad", pack, {ELU: "wrong", ONE: "right"}), pack)
    assert ended.exit_code == 1
    assert ended.output.splitlines() == [
        f"wrong: {ELU}: so wrong",
        "fast 1.2 on linux x86_64",
        "core: 4 tests: 1 wrong, 2 absent, 1 right",
        "full: 4 tests: 1 wrong, 2 absent, 1 right",
    ]
    good = submit(tmp_path / "good", pack, dict.fromkeys(IDS, "ran"))
    assert command(good, pack).exit_code == 0
    printed = json.loads(command(good, pack, "--json").output)
    assert printed["scores"]["core"] == {"tests": 4, "results": {"right": 4}, "waived": 0}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("submission.json", None, "has no submission.json: it is no submission."),
        ("submission.json", "{", "is no JSON: Input data was truncated."),
        ("submission.json", "[" * 99_999, "is no JSON: maximum recursion depth exceeded"),
        ("submission.json", '{"format": "onnx-parity-submission", "version": 9}', "version 1 is read here."),
        ("results.jsonl", None, "has no results.jsonl: it is no submission."),
        ("results.jsonl", '{"id": "Gone-1", "result": "right"}', "result for Gone-1, which is no test of the pack."),
        ("results.jsonl", '{"id": "x", "result": "fine"}', "results.jsonl, line 1, does not follow its schema: "
         "Invalid enum value 'fine' - at `$.result`."),
        ("results.jsonl", '{"id": "x", "result": "right"}\n' * 2, "line 2, is a second result for x."),
        ("results.jsonl", '{"id": "x", "result": "wrong", "log": "../../etc/passwd"}',
         "names ../../etc/passwd, which is not a path inside"),
        ("waivers.json", '[{"id": "*", "reason": "because", "link": "here", "until": "soon", "versions": []}]',
         "waivers.json does not follow its schema"),
    ],
)  # fmt: skip
def test_a_bad_submission_is_one_line(tmp_path: Path, pack: Path, file: str, text: str | None, said: str) -> None:
    folder = submit(tmp_path / "bad", pack, {ELU: "right"})
    (folder / file).unlink() if text is None else (folder / file).write_text(text)
    ended = command(folder, pack)
    assert ended.exit_code == 2 and ended.output.count("\n") == 1
    assert said in ended.output


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path, pack: Path) -> None:
    folder = submit(tmp_path / "links", pack, {ELU: "ran"})
    away = (folder / "outputs").rename(tmp_path / "away")
    (folder / "outputs").symlink_to(away)
    ended = command(folder, pack)
    assert (ended.exit_code, ended.output) == (2, f"{folder / 'outputs' / ABS} leads out of {folder}.\n")
    copy = shutil.copytree(pack, tmp_path / "pack")
    model = (copy / "tests" / ELU / "model.onnx").rename(tmp_path / "model.onnx")
    (copy / "tests" / ELU / "model.onnx").symlink_to(model)
    ended = command(folder, copy)
    assert ended.exit_code == 2 and ended.output.endswith(f"model.onnx leads out of {copy}.\n")


def test_a_bad_pack_is_one_line(tmp_path: Path) -> None:
    pack = make_pack(tmp_path / "pack", [ELU])
    folder = submit(tmp_path / "submission", pack, {ELU: "right"})
    manifest = json.loads((pack / MANIFEST).read_text("utf-8"))
    (test,) = manifest["tests"]
    for changed, said in (
        ({**manifest, "version": 4}, "has version 4 of its format; version 3 is read here."),
        ({**manifest, "format": "other"}, "does not have the format onnx-parity-pack: it is no pack."),
        ({**manifest, "tests": [test, test]}, f"has two tests with the id {ELU}."),
        ({**manifest, "tests": [{**test, "folder": "/etc"}]}, "names /etc/model.onnx, which is not a path inside"),
        ({**manifest, "tests": [{**test, "model": "../../x"}]}, "/../../x, which is not a path inside"),
        ({**manifest, "tests": [{**test, "opset": "new"}]}, "Expected `int`, got `str` - at `$.tests[0].opset`"),
        ({**manifest, "made_by": "another"}, "was made with another pack"),
    ):
        (pack / MANIFEST).write_text(json.dumps(changed))
        ended = command(folder, pack)
        assert (ended.exit_code, ended.output.count("\n")) == (2, 1) and said in ended.output
    (pack / MANIFEST).write_text(json.dumps(manifest))
    model = pack / test["folder"] / "model.onnx"
    model.write_bytes(onnx.ModelProto().SerializeToString())
    assert "model.onnx is not as the manifest says: its SHA-256 is another one." in command(folder, pack).output
    model.unlink()
    assert "model.onnx cannot be read: No such file or directory." in command(folder, pack).output
