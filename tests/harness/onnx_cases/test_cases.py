"""Cases of ONNX operators: ids that stay, inputs that stay, expected values that onnx.reference agrees with."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.conformance.planning import declared_cases
from onnx_parity.harness.onnx_cases.case import Distribution, Expectation
from onnx_parity.harness.onnx_node import ML, OnnxCase, Subgraph, call, definition, node, seq
from onnx_parity.op_cases.onnx import differences
from onnx_parity.op_cases.onnx.differences import DIFFERENCES


def run_reference(case: OnnxCase) -> str:
    """What differs in onnx.reference, or nothing."""
    model, inputs, expected = case.make_test()
    onnx.checker.check_model(model, full_check=True)
    feeds = {value.name: each for value, each in zip(model.graph.input, inputs, strict=True)}
    try:
        outputs = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:  # noqa: BLE001  It raises anything for what it does not implement.
        return f"{type(error).__name__}: {error}"
    return "; ".join(filter(None, map(compare, outputs, expected)))


def compare(output: object, expected: Expectation) -> str:
    if isinstance(expected, Expected):
        array = np.asarray(output)
        return judge([array.astype(object) if array.dtype.kind == "U" else array], [expected]).detail
    if isinstance(expected, list):
        return (
            "; ".join(filter(None, map(compare, output, expected))) if isinstance(output, list) else "it is no sequence"
        )
    if isinstance(expected, dict):
        if not isinstance(output, dict) or output.keys() != expected.keys():
            return "it is no such map"
        return "; ".join(filter(None, (compare(output[key], each) for key, each in expected.items())))
    if isinstance(expected, Distribution):
        return expected.judge(np.asarray(output))
    return "" if output is None else "a value where there is none"


@pytest.fixture(scope="module")
def cases() -> Sequence[OnnxCase]:
    return declared_cases()


@pytest.mark.slow
def test_ids_are_unique_and_fit_for_files(cases: Sequence[OnnxCase]) -> None:
    counts = Counter(case.id for case in cases)
    assert [id_ for id_, count in counts.items() if count > 1] == []
    assert [id_ for id_ in counts if len(id_) > 150 or not fnmatchcase(id_, "[A-Za-z]*")] == []


def test_references_are_torch_or_definitions_and_no_runtime(cases: Sequence[OnnxCase]) -> None:
    names = {case.reference for case in cases}
    assert {name.partition(".")[0] for name in names} <= {"torch", "numpy", "onnx_parity", "None"}
    for path in Path(differences.__file__).parent.glob("*.py"):
        assert not re.search(r"^(from|import) (onnxruntime|onnx\.reference)", path.read_text("utf-8"), re.M), path


def is_chosen(case: OnnxCase) -> bool:
    return case.in_core and case.type in ("float", "string", "seq.float", "any") and case.call is case.declared.calls[0]


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_onnx_reference_agrees_but_where_it_is_known_to_differ(cases: Sequence[OnnxCase], every: bool) -> None:
    known = [pattern for patterns, _ in DIFFERENCES["onnx.reference"] for pattern in patterns]
    differing = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx.reference computes in numpy, which warns of narrow dtypes.
        for case in cases:
            if (every or is_chosen(case)) and not any(fnmatchcase(case.id, pattern) for pattern in known):
                differing[case.id] = run_reference(case)
    assert len(differing) > 200
    assert {id_: detail for id_, detail in differing.items() if detail} == {}


def test_a_slightly_wrong_operator_is_red(cases: Sequence[OnnxCase]) -> None:
    missed, tried = [], 0
    for case in cases:
        if not case.in_core or case.type != "float" or not case.id.endswith("-2x3"):
            continue
        for expected in case.expect_outputs():
            if isinstance(expected, Expected) and expected.tolerance is not None and expected.value.size:
                tried += 1
                wrong = expected.value.copy()
                worst = np.unravel_index(int(np.abs(wrong).argmax()), wrong.shape)
                wrong[worst] *= np.float32(1.0001)
                if judge([wrong], [expected]).passed:
                    missed.append(case.id)
    assert tried > 30
    assert missed == []


def test_inputs_stay_as_they_are(cases: Sequence[OnnxCase]) -> None:
    (value,) = next(case for case in cases if case.id == "Elu-6-double-2x3").draw_inputs()
    assert isinstance(value, np.ndarray)
    assert value.ravel().tolist() == [
        2.189537525177002,
        3.131516933441162,
        0.3986630439758301,
        0.8521251678466797,
        -3.30483341217041,
        -0.589663028717041,
    ]


def test_a_name_is_an_attribute_or_an_input_as_the_version_has_it() -> None:
    sums = node("ReduceSum", definition(lambda x, axes, **_: x.sum(tuple(axes))), call((2, 3), axes=[1], keepdims=0))
    by_version = {case.version: case for case in sums.list_cases() if case.type == "float"}
    assert by_version[11].attributes == {"axes": [1], "keepdims": 0}
    assert by_version[11].names == ["data"]
    assert by_version[13].attributes == {"keepdims": 0}
    assert by_version[13].names == ["data", "axes"]
    assert {case.id for case in by_version.values()} == {
        f"ReduceSum-{version}-float-2x3-axes=1-keepdims=0" for version in (1, 11, 13)
    }


def test_maps_are_inputs_and_outputs() -> None:
    zipped = node(
        "ZipMap", definition(lambda x, classlabels_strings: [{"a": 1.0}]), call((1, 1), classlabels_strings=["a"]),
        where=lambda types: "string" in types["T"], domain=ML,
    )  # fmt: skip
    (case,) = zipped.list_cases()
    model, _, (expected,) = case.make_test()
    onnx.checker.check_model(model, full_check=True)
    assert case.id == "ml.ZipMap-1-seq.map.string.float-1x1-classlabels_strings=a"
    assert isinstance(expected, list)
    assert isinstance(expected[0], dict)
    assert expected[0]["a"].value == np.float32(1)
    taken = node(
        "DictVectorizer", definition(lambda x, int64_vocabulary: np.array([x[7]])), call({7: 2}, int64_vocabulary=[7]),
        where=lambda types: types["T2"] == "tensor(double)", domain=ML,
    )  # fmt: skip
    case = next(taken.list_cases())
    assert case.id == "ml.DictVectorizer-1-map.int64.double+T2=double-map.7=2-int64_vocabulary=7"
    assert case.draw_inputs() == [{7: 2.0}]


def test_subgraphs_read_values_of_the_model() -> None:
    branch = Subgraph("branch () => ({V}[] y) { y = Neg (x) }")
    asked = call(True, then_branch=branch, else_branch=branch, outer={"x": (2,)})
    chosen = node("If", definition(lambda cond, x, **_: -x), asked, main="V", since=11, before=13)
    model, (cond, x), (expected,) = next(chosen.list_cases()).make_test()
    assert [each.name for each in model.graph.input] == ["x0", "x"]
    assert list(model.graph.node[0].input) == ["x0"]
    assert isinstance(expected, Expected)
    (got,) = ReferenceEvaluator(model).run(None, {"x0": cond, "x": x})
    assert judge([np.asarray(got)], [expected]).passed


def test_types_of_sequences_follow_those_of_tensors() -> None:
    at = node("SequenceAt", definition(lambda items, place: items[int(place)]), call(seq((2,), (3,)), 1))
    (case,) = [each for each in at.list_cases() if each.types["S"] == "seq(tensor(int8))"]
    model, inputs, (expected,) = case.make_test()
    assert case.types["T"] == "tensor(int8)"
    items, _ = inputs
    assert isinstance(items, list)
    assert isinstance(expected, Expected)
    assert expected.value.tolist() == np.asarray(items[1]).tolist()
    got = ReferenceEvaluator(model).run(None, dict(zip(("x0", "x1"), inputs, strict=True)))
    assert judge([np.asarray(each) for each in got], [expected]).passed
