"""Operators that are functions: the nodes of each body, at each opset that has one, return what the operator does."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.backend.test.case.node import function_testcase_helper
from onnx.reference import ReferenceEvaluator

from onnx_parity.harness.conformance.planning import declared_cases
from onnx_parity.harness.onnx_cases.types import schema_at
from onnx_parity.harness.onnx_node import OnnxCase
from tests.harness.onnx_cases.test_cases import compare

pytestmark = pytest.mark.slow
#: What a body does that the operator does not, by the specification.
_WRONG_BODIES = {
    "Bernoulli-*": "it is 1 with the probability of 0",
    "Celu-12-*-scalar*": "alpha has an axis, so the result of a scalar has one too",
    "CenterCropPad-18-int32-*": "sizes of the tensor are int64, which the wanted ones need not be",
}
#: Bodies that only onnx.reference runs, whose Loop and Pad differ: tests/harness/onnx_cases/test_cases.py.
_NOT_RUN = ("Range-27-*", "CenterCropPad-18-string*")


def bodies(case: OnnxCase) -> Iterator[tuple[int, onnx.ModelProto]]:
    """The models with a body in place of the node, and the opset of each."""
    (model, *_) = case.make_test()
    node = copy.deepcopy(model.graph.node[0])
    known = {each.name: each.type for each in model.graph.input}
    types = [known.get(name, onnx.TypeProto()) for name in node.input]
    expanded, _ = function_testcase_helper(node, types, "body", list(model.opset_import))
    for nodes, opsets in expanded:
        graph = helper.make_graph(nodes, "body", model.graph.input, model.graph.output)
        opset = next(each.version for each in opsets if not each.domain)
        yield opset, helper.make_model(graph, opset_imports=opsets, ir_version=10)


def opsets_of_bodies(case: OnnxCase) -> set[int]:
    return opsets_of(case.declared.operator, case.opset, case.declared.domain)


@cache
def opsets_of(operator: str, opset: int, domain: str) -> set[int]:
    schema = schema_at(operator, opset, domain)
    return {*schema.function_opset_versions, *schema.context_dependent_function_opset_versions}  # type: ignore[attr-defined]


def run_either(model: onnx.ModelProto, case: OnnxCase) -> str:
    """What differs in onnx.reference, and in onnxruntime; nothing if either is right."""
    _, inputs, expected = case.make_test()
    feeds = {value.name: each for value, each in zip(model.graph.input, inputs, strict=True)}
    details = []
    for run in (ReferenceEvaluator, run_in_onnxruntime):
        try:
            outputs = run(model).run(None, feeds)
            detail = "; ".join(filter(None, map(compare, outputs, expected)))
        except Exception as error:  # noqa: BLE001  Runtimes raise anything for what they do not implement.
            detail = f"{type(error).__name__}: {error}"
        if not detail:
            return ""
        details.append(detail)
    return " | ".join(details)


def run_in_onnxruntime(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_bodies_return_what_the_operators_do() -> None:
    differing, ran = {}, set()
    known = (*_WRONG_BODIES, *_NOT_RUN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx.reference divides by zero.
        for case in declared_cases():
            is_usual = case.type in ("float", "int32", "int64", "any", "seq.float")
            for opset, model in bodies(case) if opsets_of_bodies(case) and is_usual else ():
                ran.add((case.declared.operator, case.version, opset))
                if not any(fnmatchcase(case.id, pattern) for pattern in known):
                    differing[case.id, opset] = run_either(model, case)
    assert {key: detail for key, detail in differing.items() if detail} == {}
    assert ran == {(case.declared.operator, case.version, opset)
                   for case in declared_cases() for opset in opsets_of_bodies(case)}  # fmt: skip


@pytest.mark.parametrize("pattern", _WRONG_BODIES)
def test_bodies_that_are_wrong_are_still_so(pattern: str) -> None:
    case = next(each for each in declared_cases() if fnmatchcase(each.id, pattern))
    assert all(run_either(model, case) for _, model in bodies(case))
