"""The tests that onnx generates: they become tests of the pack, with what our declarations expect of the same node."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.conformance.planning import ONNX_TESTS, declared_nodes, plan_node_tests
from onnx_parity.harness.conformance.values import UnfitError
from onnx_parity.harness.onnx_cases.case import Distribution
from onnx_parity.harness.onnx_cases.node_tests import NodeTest, collect_node_tests, expect_outputs
from onnx_parity.op_cases.onnx.differences import DIFFERENCES

#: Collecting them takes ten seconds.
pytestmark = pytest.mark.slow
#: What no declaration has: operators of the preview domains, and subgraphs and pictures, which are declared otherwise.
_UNDECLARED = (
    "onnx.adagrad*", "onnx.adam*", "onnx.momentum*", "onnx.nesterov_momentum", "onnx.flexattention*", "onnx.if*",
    "onnx.loop*", "onnx.scan*", "onnx.image_decoder_*", "onnx.sequence_map_*", "onnx.range_*_expanded",
)  # fmt: skip


@pytest.fixture(scope="module")
def tests() -> Sequence[NodeTest]:
    return collect_node_tests()


def find(tests: Sequence[NodeTest], id_: str) -> NodeTest:
    return next(each for each in tests if each.id == id_)


def expect(tests: Sequence[NodeTest], test: NodeTest) -> Sequence[object]:
    return expect_outputs(test, tests, declared_nodes())


def test_there_are_as_many_as_onnx_has_and_numpy_s_generator_stays_as_it_was(tests: Sequence[NodeTest]) -> None:
    assert len(tests) > 1800
    assert len({each.id for each in tests}) == len(tests)
    assert [each.id for each in plan_node_tests()] == [each.id for each in tests]


def test_what_a_declaration_expects_is_within_its_own_tolerance(tests: Sequence[NodeTest]) -> None:
    test = find(tests, "onnx.softmax_example")
    (expected,) = expect(tests, test)
    assert isinstance(expected, Expected)
    assert expected.tolerance is not None
    assert expected.tolerance.max() < 1e-5
    slightly_wrong = expected.value * np.float32(1.0001)
    assert not judge([slightly_wrong], [expected]).passed
    (of_nodes,) = expect(tests, find(tests, "onnx.softmax_example_expanded"))
    assert isinstance(of_nodes, Expected)
    assert judge([slightly_wrong], [of_nodes]).passed


def test_what_is_drawn_is_judged_by_its_distribution(tests: Sequence[NodeTest]) -> None:
    for id_ in ("onnx.bernoulli", "onnx.bernoulli_expanded"):
        (expected,) = expect(tests, find(tests, id_))
        assert isinstance(expected, Distribution)


def test_what_the_specification_does_not_say_is_left_out(tests: Sequence[NodeTest]) -> None:
    planned = {each.id: each for each in plan_node_tests()}
    with pytest.raises(UnfitError, match="length_resized"):
        planned["onnx.resize_downsample_scales_linear_align_corners"].make()
    contents = planned["onnx.abs"].make()
    assert (contents.source, contents.attributes) == (ONNX_TESTS, {})
    (y,) = ReferenceEvaluator(contents.model).run(None, {"x": contents.data_sets[0].inputs[0]})
    (expected,) = contents.data_sets[0].expected
    assert isinstance(expected, Expected)
    assert judge([np.asarray(y)], [expected]).passed


def test_declarations_agree_with_onnx_but_where_it_is_known_to_differ(tests: Sequence[NodeTest]) -> None:
    known = [pattern for patterns, _ in DIFFERENCES[ONNX_TESTS] for pattern in patterns]
    differing = []
    for test in tests:
        if "expanded" in test.name or any(fnmatchcase(test.id, each) for each in (*known, *_UNDECLARED)):
            continue
        expected = expect(tests, test)
        if all(isinstance(one, Expected) and one.value is value
               for one, value in zip(expected, test.outputs, strict=True)):  # fmt: skip
            differing.append(test.id)
    assert differing == []
