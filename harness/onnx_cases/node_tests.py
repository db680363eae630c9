"""The tests that onnx generates for its operators, and for the functions that define them.

onnx computes their outputs in float32 or types them in with few decimals, and has one tolerance for all, 0.1 %. Where a
declaration of `op_cases/onnx/` has the operator, the outputs are expected as its reference computes them, and judged
within the tolerance of each element. onnx's own outputs must then lie within onnx's tolerance of these.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from onnx_parity.exporter.arrays import Array, is_float, ulp
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.onnx_cases.case import Call, Distribution, Expectation, OnnxCase
from onnx_parity.harness.onnx_cases.given import NOTHING, Given, Items, Value
from onnx_parity.harness.onnx_cases.types import schema_at, spell_type, variables_of
from onnx_parity.harness.onnx_node import OnnxNode

__all__ = ["NodeTest", "collect_node_tests", "expect_outputs"]

#: Of the tests of a function's nodes in place of the operator: `test_gelu_default_1_expanded`, `..._expanded_ver18`.
_EXPANDED = "_expanded"
#: How much of onnx's relative tolerance the test of a single node has at least, unless it is of doubles.
_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class NodeTest:
    """A test of one node, or of the nodes that a function stands for."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Value]
    #: As onnx computes them.
    outputs: Sequence[Value]
    relative: float
    absolute: float

    @property
    def id(self) -> str:
        return f"onnx.{self.name.removeprefix('test_')}"

    @property
    def whole(self) -> str:
        """The name of the test of the operator that these nodes stand for; its own, if it is one."""
        return self.name.partition(_EXPANDED)[0]

    @property
    def node(self) -> onnx.NodeProto:
        node: onnx.NodeProto = self.model.graph.node[0]
        return node

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the only node; none if there are several."""
        if len(self.model.graph.node) > 1:
            return {}
        return {each.name: _plain(helper.get_attribute_value(each)) for each in self.node.attribute}

    def find_case(self, declared: OnnxNode) -> OnnxCase | None:
        """The node as a case of a declaration, with these inputs; None if it is no such node."""
        graph = self.model.graph
        opset = next((each.version for each in self.model.opset_import if each.domain == self.node.domain), 0)
        if len(graph.node) > 1 or (declared.domain, declared.operator) != (self.node.domain, self.node.op_type):
            return None
        schema = schema_at(declared.operator, opset, declared.domain)
        has_graphs = any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in self.node.attribute)
        if has_graphs or not declared.since <= schema.since_version < declared.before:
            return None
        values = {each.name: value for each, value in zip(graph.input, self.inputs, strict=True)}
        known = {each.name: spell_type(each.type) for each in (*graph.input, *graph.output)}
        variables = variables_of(schema)
        types = {name: allowed[0] for name, allowed in variables.items()}
        for formal, names in ((schema.outputs, self.node.output), (schema.inputs, self.node.input)):
            types |= {formal[min(place, len(formal) - 1)].type_str: known[name]
                      for place, name in enumerate(names) if name in known}  # fmt: skip
        call = Call(
            tuple(_given(values[name]) if name else None for name in self.node.input), self.attributes,
            tuple(place for place, name in enumerate(self.node.output) if name),
        )  # fmt: skip
        if call.names_at(schema) is None:
            return None
        main = declared.main if declared.main in variables else next(iter(variables), "")
        return OnnxCase(declared, schema.since_version, opset, main, {name: types[name] for name in variables}, call)


@cache
def collect_node_tests() -> tuple[NodeTest, ...]:
    """All of them, in the order in which onnx has them. It takes ten seconds."""
    state = np.random.get_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It divides by zero on purpose.
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    np.random.set_state(state)
    made = []
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        ((inputs, outputs),) = case.data_sets
        made.append(NodeTest(case.name, case.model, [*map(_value, inputs)], [*map(_value, outputs)], case.rtol,
                             case.atol))  # fmt: skip
    return tuple(made)


def expect_outputs(test: NodeTest, tests: Iterable[NodeTest], declared: Iterable[OnnxNode]) -> list[Expectation]:
    """What is expected: as a declaration says that agrees with onnx, or else as onnx says.

    The nodes of a function round in between, so they have onnx's tolerance too. A single node has a hundredth of
    its relative part, because some of these tests add up hundreds of elements, or have results near 0.
    """
    (whole,) = (each for each in tests if each.name == test.whole)
    own = [_as_onnx_says(test, value) for value in test.outputs]
    for found in _by_declarations(whole, declared):
        if all(_agree(_widen(one, other), other) for one, other in zip(found, own, strict=True)):
            if whole is test:
                strict = replace(test, relative=_SHARE * test.relative)
                own = [_as_onnx_says(strict, value) for value in test.outputs]
            return [_widen(one, other, doubles=whole is not test) for one, other in zip(found, own, strict=True)]
    return own


def _by_declarations(test: NodeTest, declared: Iterable[OnnxNode]) -> Iterator[list[Expectation]]:
    """What the declarations of the operator expect, first those that have cases of these types."""
    cases = [case for case in map(test.find_case, declared) if case is not None]
    # A declaration of elements that are only moved has no tolerance; one that computes may be meant.
    cases.sort(key=lambda case: (
        case.declared.where is not None and not case.declared.where(case.types), case.declared.exact
    ))  # fmt: skip
    for case in cases:
        yield case.expect_outputs()


def _agree(found: Expectation, says: Expectation) -> bool:
    """Whether what onnx says is right by what a declaration expects."""
    if isinstance(found, list) and isinstance(says, list):
        return len(found) == len(says) and all(map(_agree, found, says))
    if isinstance(says, Expected):
        if isinstance(found, Distribution):
            return not found.judge(says.value)
        return isinstance(found, Expected) and judge([says.value], [found]).passed
    return found is says


def _widen(found: Expectation, says: Expectation, *, doubles: bool = True) -> Expectation:
    """The same, with the tolerance of what onnx says where it is the larger one."""
    if isinstance(found, list) and isinstance(says, list):
        return [_widen(one, other, doubles=doubles) for one, other in zip(found, says, strict=True)]
    if not isinstance(found, Expected) or not isinstance(says, Expected):
        return found
    if found.tolerance is None or says.tolerance is None or (found.value.dtype == np.float64 and not doubles):
        return found
    return msgspec.structs.replace(found, tolerance=np.maximum(found.tolerance, says.tolerance))


def _as_onnx_says(test: NodeTest, value: Value) -> Expectation:
    if value is None or isinstance(value, dict):
        return None
    if isinstance(value, list):
        return [_as_onnx_says(test, each) for each in value]
    if not is_float(value.dtype):
        return Expected(value)
    magnitude = np.abs(np.where(np.isfinite(value), value, 0).astype(np.float64))
    return Expected(value, value.astype(np.float64), test.absolute + test.relative * magnitude,
                    ulp(magnitude, value.dtype))  # fmt: skip


def _value(given: Any) -> Value:
    """A tensor, which may be a protobuf or a scalar of numpy, a sequence of them, or nothing."""
    if given is None or isinstance(given, dict):
        return given
    if isinstance(given, list):
        return [_array(each) for each in given]
    return _array(given)


def _array(given: Any) -> Array:
    array = numpy_helper.to_array(given) if isinstance(given, onnx.TensorProto) else np.asarray(given)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _given(value: Value) -> Given:
    if value is None:
        return NOTHING
    return Items(tuple(value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value
