"""Sequences, optionals and what is drawn at random: their files, and how runners and `parity judge` judge them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_parity.harness.conformance import manifest
from onnx_parity.harness.conformance.judging import judge_submission, open_pack
from onnx_parity.harness.conformance.manifest import MANIFEST, Judged, read_manifest
from onnx_parity.harness.conformance.values import compare_outputs, encode_value, read_expected, read_value
from onnx_parity.harness.onnx_cases.given import Value
from tests.harness.conformance.runners import Run, in_c, in_js, pretending_in, results
from tests.harness.conformance.submissions import make_pack, submit

SEQUENCE, FULL = "SplitToSequence-24-float+I=int64+S=seq.float-3x2", "SequenceMap-17-seq.float-seq.2.3-body=bc518c"
OPTIONAL = "Identity-25-optional.seq.float-2x3"
MAPS = "ml.ZipMap-1-seq.map.int64.float-2x3-classlabels_int64s=10,20,30"
FROM_MAP = "ml.CastMap-1-map.int64.float+T2=float-map.3=2.1=5-cast_to=TO_FLOAT"
NOTHING = "Optional-28-optional.float+V=float-type=30cea1"
RANDOM = "RandomUniform-1-float-dtype=T-shape=40,50"
INTEGERS = "Multinomial-7-float+T2=int32-1x3.e1c782-sample_size=1000-dtype=T2"


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack(tmp_path_factory.mktemp("packs") / "pack", (SEQUENCE, FULL, OPTIONAL, NOTHING, MAPS))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack(tmp_path_factory.mktemp("packs") / "drawn", (RANDOM, INTEGERS))


def one_of(pack: Path, id_: str) -> manifest.Test:
    return next(test for test in read_manifest(pack).tests if test.id == id_)


def data_of(pack: Path, id_: str) -> Path:
    return pack / one_of(pack, id_).folder / "test_data_set_0"


def test_files_are_the_protobufs_that_onnx_has_for_them(pack: Path) -> None:
    sequence = onnx.SequenceProto.FromString((data_of(pack, SEQUENCE) / "output_0.pb").read_bytes())
    assert [onnx.numpy_helper.to_array(each).shape for each in sequence.tensor_values] == [(1, 2)] * 3
    optional = onnx.OptionalProto.FromString((data_of(pack, OPTIONAL) / "output_0.pb").read_bytes())
    assert optional.elem_type == onnx.OptionalProto.SEQUENCE and len(optional.sequence_value.tensor_values) == 1
    nothing = onnx.OptionalProto.FromString((data_of(pack, NOTHING) / "output_0.pb").read_bytes())
    assert nothing.elem_type == onnx.OptionalProto.UNDEFINED
    maps = onnx.SequenceProto.FromString((data_of(pack, MAPS) / "output_0.pb").read_bytes())
    assert maps.elem_type == onnx.SequenceProto.MAP
    assert [onnx.numpy_helper.to_dict(each).keys() for each in maps.map_values] == [{10, 20, 30}] * 2


def test_what_is_drawn_at_random_has_no_file(drawn: Path) -> None:
    assert not (data_of(drawn, RANDOM) / "output_0.pb").exists()
    assert [output.judged for output in one_of(drawn, RANDOM).outputs] == [Judged.DISTRIBUTION]


def test_values_are_read_as_they_were_written(tmp_path: Path) -> None:
    one, other = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 2), np.float32)
    for type_, value in (
        ("tensor(float)", one), ("seq(tensor(float))", [one, other]), ("seq(tensor(float))", []),
        ("optional(tensor(float))", one), ("optional(tensor(float))", None), ("optional(seq(tensor(float)))", [other]),
        ("optional(seq(tensor(float)))", None), ("optional(seq(tensor(float)))", []), ("map(int64, float)", {}),
        ("map(int64, float)", {-2: one[0, 0], 1: one[0, 1]}), ("map(string, string)", {"ä": np.array("é", object)}),
        ("seq(map(string, float))", [{"a": one[0, 0]}, {}]), ("seq(map(int64, float))", []),
    ):  # fmt: skip
        given: Value = value
        (tmp_path / "value.pb").write_bytes(encode_value(given, type_))
        again = read_value(tmp_path / "value.pb", type_)
        assert type(again) is type(given)
        np.testing.assert_equal(again, given)


def compare(pack: Path, id_: str, given: Any) -> str:
    outputs = one_of(pack, id_).outputs
    return compare_outputs(outputs, [given], [read_expected(outputs[0], data_of(pack, id_), 0)])


def test_sequences_and_optionals_are_judged_here(pack: Path) -> None:
    for name in (SEQUENCE, FULL, OPTIONAL):
        given: Any = read_value(data_of(pack, name) / "output_0.pb", one_of(pack, name).outputs[0].type)
        assert isinstance(given, list) and compare(pack, name, given) == ""
        wrong = [*given[:-1], given[-1] + np.float32(1)]
        assert compare(pack, name, wrong).startswith(f"output {len(given) - 1} at ")
        length = len(given)
        assert compare(pack, name, given[:-1]) == (
            f"output 0 is a sequence of {length - 1} in place of a sequence of {length}"
        )
        assert compare(pack, name, None) == f"output 0 is nothing in place of a sequence of {length}"
    assert compare(pack, NOTHING, None) == ""
    assert compare(pack, NOTHING, np.zeros(2, np.float32)) == "output 0 is a tensor in place of nothing"


def test_maps_are_judged_by_their_keys(pack: Path) -> None:
    given: Any = read_value(data_of(pack, MAPS) / "output_0.pb", one_of(pack, MAPS).outputs[0].type)
    turned = [dict(reversed(each.items())) for each in given]
    assert compare(pack, MAPS, given) == compare(pack, MAPS, turned) == ""
    assert compare(pack, MAPS, [given[0], {**given[1], 30: np.array(9, np.float32)}]).startswith("output 5 at ")
    assert compare(pack, MAPS, given[:1]).startswith("output 0 is a sequence of 1; a map of 3: 10, 20, 30 in place of")
    other = [given[0], {10: given[1][10]}]
    assert compare(pack, MAPS, other) == (
        "output 0 is a sequence of 2; a map of 3: 10, 20, 30; a map of 1: 10 "
        "in place of a sequence of 2; a map of 3: 10, 20, 30; a map of 3: 10, 20, 30"
    )


def test_what_is_drawn_at_random_is_held_to_its_distribution(drawn: Path) -> None:
    right = np.random.default_rng(0).random((40, 50), np.float32)
    assert compare(drawn, RANDOM, right) == ""
    assert "no tensor(float)" in compare(drawn, RANDOM, right.astype(np.float64))
    assert "the shape is" in compare(drawn, RANDOM, right[:3])
    assert "outside of 0.0 to 1.0" in compare(drawn, RANDOM, right + np.float32(0.5))
    assert "the mean" in compare(drawn, RANDOM, right * np.float32(0.9))
    assert "deviation" in compare(drawn, RANDOM, (right - np.float32(0.5)) * np.float32(0.8) + np.float32(0.5))


def test_a_submission_of_files_may_have_sequences_and_maps(tmp_path: Path, pack: Path) -> None:
    folder = submit(tmp_path / "files", pack, {SEQUENCE: "ran", NOTHING: "ran", MAPS: "ran"})
    judged = {test.id: str(test.result) for test in judge_submission(folder, open_pack(pack)).tests}
    assert judged[SEQUENCE] == judged[NOTHING] == judged[MAPS] == "right"
    (folder / "outputs" / SEQUENCE / "test_data_set_0/output_0.pb").write_bytes(encode_value([], "seq(tensor(float))"))
    judged = {test.id: test.reason for test in judge_submission(folder, open_pack(pack)).tests}
    assert judged[SEQUENCE] == "output 0 is a sequence of 0 in place of a sequence of 3"


@pytest.fixture(scope="module", params=["c", "js", "rust"])
def pretending(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return pretending_in(request.param, tmp_path_factory.mktemp("runner"))


def test_runners_judge_sequences_optionals_and_maps(tmp_path: Path, pack: Path, pretending: Run) -> None:
    for told, wrong in (
        ("", {}),
        (f"{SEQUENCE}=is-wrong {OPTIONAL}=is-wrong {NOTHING}=is-something", {SEQUENCE, OPTIONAL, NOTHING}),
        (f"{SEQUENCE}=other-shape {FULL}=other-type {OPTIONAL}=is-nothing", {SEQUENCE, FULL, OPTIONAL}),
        (f"{SEQUENCE}=is-shorter {FULL}=is-nothing {MAPS}=is-wrong", {SEQUENCE, FULL, MAPS}),
        (f"{MAPS}=other-keys", {MAPS}),
        (f"{MAPS}=is-shorter", {MAPS}),
    ):
        out = tmp_path / f"of-{len(list(tmp_path.iterdir()))}"
        pretending(pack, out, PRETEND=told)
        found = results(out)
        assert {id_ for id_, (result, _) in found.items() if result == "wrong"} == set(wrong), found
        assert {result for result, _ in found.values()} <= {"right", "wrong"} and len(found) == 5


def test_maps_are_given_to_onnxruntime_in_c(tmp_path: Path) -> None:
    taken = make_pack(tmp_path / "pack", (FROM_MAP, MAPS))
    ended = in_c(tmp_path)(taken, tmp_path / "out", "--list", "full")
    assert ended.returncode == 0, results(tmp_path / "out")
    assert results(tmp_path / "out") == {FROM_MAP: ("right", ""), MAPS: ("right", "")}


@pytest.mark.parametrize("runner", ["c", "onnxruntime-node"])
def test_runners_judge_what_is_drawn_at_random(tmp_path: Path, drawn: Path, runner: str) -> None:
    run = in_c(tmp_path) if runner == "c" else in_js(runner)
    ended = run(drawn, tmp_path / "right", "--list", "full")
    assert ended.returncode == 0, results(tmp_path / "right")
    whole = json.loads((drawn / MANIFEST).read_text("utf-8"))
    for key, value in (("mean", 9.0), ("deviation", 9.0), ("low", 0.9), ("high", 0.1), ("shape", [2000])):
        changed = json.loads(json.dumps(whole))
        for output in (output for test in changed["tests"] for output in test["outputs"]):
            output["distribution"][key] = value
        copy = tmp_path / f"pack-{key}"
        copy.mkdir()
        (copy / MANIFEST).write_text(json.dumps(changed))
        for name in ("manifest.sha256", "tests"):
            (copy / name).symlink_to(drawn / name)
        run(copy, tmp_path / key, "--list", "full")
        assert {result for result, _ in results(tmp_path / key).values()} == {"wrong"}, key
