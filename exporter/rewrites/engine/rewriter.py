"""The rewriter, which applies a table of rewrites to all nodes of a model in one walk.

A `Rewrite` begins at nodes of certain operators. It finds a pattern there, or says why there is none, and describes
what is computed instead: another value, or an `Op` and the operators before it. The rewriter does the rest:

1. What reads the old result reads the new one, which has the old one's name, type and shape.
2. A node that is added has the origin, the metadata and the documentation of the node before which it stands.
3. Nodes whose results nothing reads any more are removed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import (
    MAY_HAVE_SUBGRAPHS,
    all_nodes,
    onnx_operator,
    subgraphs_of,
)
from onnx_parity.exporter.rewrites.engine.new_constants import NewConstants

__all__ = [
    "NoMatch", "Op", "Rewrite", "Walk", "apply_rewrites", "first_match", "give_origin", "op", "operators_of",
    "read_found",
]  # fmt: skip

T = TypeVar("T")

_log = logging.getLogger(__name__)


class NoMatch(msgspec.Struct, frozen=True):
    """The reason why a rewrite does not apply to a node at which it begins."""

    reason: str


class Op(msgspec.Struct, frozen=True):
    """A node that is computed instead of another one; `op` makes it."""

    op_type: str
    inputs: tuple[ir.Value | Op | None, ...]
    attributes: tuple[ir.Attr, ...]
    sizes: Iterable[Any] | None
    dtype: ir.DataType | None
    instead_of: ir.Node | None
    #: Results that the operator has to have beside the first one, which nothing reads, by the ends of their names.
    unread: tuple[str, ...] = ()
    #: A domain other than ONNX's, for a node that is added.
    domain: str = ""


def op(
    op_type: str,
    *inputs: ir.Value | Op | None,
    attributes_of: ir.Node | None = None,
    sizes: Iterable[Any] | None = None,
    dtype: ir.DataType | None = None,
    instead_of: ir.Node | None = None,
    unread: tuple[str, ...] = (),
    domain: str = "",
    **attributes: float | str | Sequence[int],
) -> Op:
    """Describe a node, whose inputs may be described too.

    The last node of a replacement has the type and the shape of the result that it replaces. Those before it have the
    given sizes, and the dtype of their first input unless another is given. `instead_of` is a node that only this
    pattern reads: it is changed in its place. `attributes_of` is a node whose attributes this one has, beside those
    that are given.
    """
    given = {} if attributes_of is None else dict(attributes_of.attributes)
    for name, value in attributes.items():
        given[name] = _attribute(name, value)
    return Op(op_type, inputs, tuple(given.values()), sizes, dtype, instead_of, unread, domain)


def _attribute(name: str, value: float | str | Sequence[int]) -> ir.Attr:
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    return ir.AttrInt64(name, value) if isinstance(value, int) else ir.AttrInt64s(name, list(value))


class Walk:
    """One walk over a model: what the rewrites of a table may know of it, and what they share while it lasts."""

    def __init__(self, graph: ir.Graph, opset: int, operators: set[str], keeps_weights: bool) -> None:
        self.graph = graph
        self.opset = opset
        self._operators = operators
        #: Whether weights stay where they are stored, so that nothing may be computed from a large one.
        self.keeps_weights = keeps_weights
        self.constants = NewConstants(graph)
        self._shared: dict[Callable[[Walk], Any], Any] = {}

    def once(self, make: Callable[[Walk], T]) -> T:
        """What a function or a class makes for this walk, the first time that it is asked for."""
        if make not in self._shared:
            self._shared[make] = make(self)
        made: T = self._shared[make]
        return made

    def add(self, new: Op, before: ir.Node) -> ir.Value:
        """Add a node, and those before it, and return its result."""
        self._operators.add("" if new.domain else new.op_type)
        if new.domain:
            self.graph.opset_imports.setdefault(new.domain, 1)
        inputs = self._inputs(new, before)
        node = ir.Node(new.domain, new.op_type, inputs, new.attributes, num_outputs=1 + len(new.unread))
        give_origin(node, before)
        assert before.graph is not None
        before.graph.insert_before(before, node)
        result = node.outputs[0]
        _describe(result, node, new)
        return result

    def insert(self, nodes: Iterable[ir.Node], before: ir.Node) -> None:
        """Add nodes that exist already, such as one with branches."""
        assert before.graph is not None
        for node in nodes:
            for each in (node, *(inner for subgraph in subgraphs_of(node) for inner in all_nodes(subgraph))):
                self._operators.add(onnx_operator(each))
                if each.domain:
                    self.graph.opset_imports.setdefault(each.domain, 1)
            before.graph.insert_before(before, node)

    def replace(self, node: ir.Node, new: Op | ir.Value) -> None:
        """Let what reads the result of a node read something else, or change the node so that it computes that."""
        before = _producers(node)
        if isinstance(new, Op):
            target = new.instead_of or node
            self._change(target, new)
            if target is not node:
                _stand_for(node, target)
        elif not _read_instead(node, new):
            self._change(node, op("Identity", new))
        _remove_unread(node, *before)

    def _change(self, node: ir.Node, new: Op) -> None:
        inputs, before = self._inputs(new, node), _producers(node)
        if node.op_type != new.op_type:
            node.op_type = new.op_type
            self._operators.add(new.op_type)
        node.attributes.clear()
        node.attributes.update((each.name, each) for each in new.attributes)
        node.resize_inputs(len(inputs))
        for place, value in enumerate(inputs):
            if node.inputs[place] is not value:
                node.replace_input_with(place, value)
        node.resize_outputs(1 + len(new.unread))
        for value, end in zip(node.outputs[1:], new.unread, strict=True):
            value.name = value.name or f"{node.outputs[0].name}_{end}"
        _remove_unread(*before)

    def _inputs(self, new: Op, node: ir.Node) -> list[ir.Value | None]:
        return [self._value_of(each, node) if isinstance(each, Op) else each for each in new.inputs]

    def _value_of(self, new: Op, reader: ir.Node) -> ir.Value:
        if new.instead_of is None:
            return self.add(new, reader)
        self._change(new.instead_of, new)
        _describe(new.instead_of.outputs[0], new.instead_of, new)
        return new.instead_of.outputs[0]


class Rewrite(msgspec.Struct, Generic[T], frozen=True, eq=False, kw_only=True):
    """A pattern of nodes, and what is computed instead."""

    name: str
    #: The operators at whose nodes the pattern ends.
    at: tuple[str, ...]
    #: Finds the pattern that ends at a node.
    find: Callable[[ir.Node, Walk], T | NoMatch]
    #: What is computed instead of the node's result.
    write: Callable[[ir.Node, T, Walk], Op | ir.Value]
    #: The opsets to which it applies.
    since: int = 1
    until: int | None = None
    #: Whether it may apply where the result is an output of the model or of a branch, which keeps its name.
    for_outputs: bool = True


def give_origin(node: ir.Node, source: ir.Node) -> None:
    """Give a node the origin, the metadata and the documentation of another one."""
    node.meta.update(source.meta)
    node.metadata_props.update(source.metadata_props)
    node.doc_string = source.doc_string


def read_found(_node: ir.Node, found: ir.Value, _walk: Walk) -> ir.Value:
    """Read the value that was found."""
    return found


def first_match(candidates: Iterable[T | NoMatch], otherwise: str) -> T | NoMatch:
    """The first pattern among several; all reasons if there is none, or this one if there are no candidates."""
    reasons: dict[str, None] = {}
    for each in candidates:
        if not isinstance(each, NoMatch):
            return each
        reasons[each.reason] = None
    return NoMatch("; or ".join(reasons) or otherwise)


def apply_rewrites(
    model: ir.Model, table: Sequence[Rewrite[Any]], opset: int, operators: set[str], *, keeps_weights: bool = False
) -> bool:
    """Apply the rewrites of a table to each node, in their order. Returns whether any of them has applied.

    The operators are those that the model may have, as `operators_of` finds them; new ones are added. With
    `keeps_weights`, no large weight is stored anew.
    """
    by_operator = _by_operator(tuple(table), opset)
    if operators.isdisjoint(by_operator):  # Half of the tables for ResNet-50, each of which would walk for 0.1 ms.
        return False
    walk = Walk(model.graph, opset, operators, keeps_weights)
    logs = _log.isEnabledFor(logging.DEBUG)
    has_applied = False
    # Without subgraphs, the list of nodes itself is walked through in half the time.
    for node in model.graph if operators.isdisjoint(MAY_HAVE_SUBGRAPHS) else all_nodes(model.graph):
        op_type = node.op_type
        if op_type not in by_operator or not onnx_operator(node):
            continue
        for rewrite in by_operator[op_type]:
            found = _find(rewrite, node, walk)
            if not isinstance(found, NoMatch):
                walk.replace(node, rewrite.write(node, found, walk))
                has_applied = True
            if logs:
                _log.debug("%s at %s: %s", rewrite.name, node.name, getattr(found, "reason", "rewritten"))
            if node.graph is None or node.op_type != op_type:
                break
    return has_applied


def operators_of(model: ir.Model) -> set[str]:
    """The operators of ONNX that a model has, and an empty string if it has others."""
    return {onnx_operator(node) for node in all_nodes(model.graph)}


@functools.lru_cache(maxsize=1_000)
def _by_operator(table: tuple[Rewrite[Any], ...], opset: int) -> Mapping[str, Sequence[Rewrite[Any]]]:
    found: dict[str, list[Rewrite[Any]]] = {}
    for rewrite in table:
        if rewrite.since <= opset and (rewrite.until is None or opset <= rewrite.until):
            for operator in rewrite.at:
                found.setdefault(operator, []).append(rewrite)
    return found


def _find(rewrite: Rewrite[T], node: ir.Node, walk: Walk) -> T | NoMatch:
    if not rewrite.for_outputs and node.outputs[0].is_graph_output():
        return NoMatch("its result is an output")
    return rewrite.find(node, walk)


def _describe(result: ir.Value, node: ir.Node, new: Op) -> None:
    """Give a result its type and shape, if the sizes are given."""
    if new.sizes is not None:
        first = node.inputs[0]
        result.shape = ir.Shape(new.sizes)
        result.type = ir.TensorType(new.dtype) if new.dtype is not None else first.type if first is not None else None


def _stand_for(node: ir.Node, other: ir.Node) -> None:
    """Let the result of another node take the place of a node's."""
    old, new = node.outputs[0], other.outputs[0]
    new.type, new.shape = old.type, old.shape
    other.meta["ends"] = node.meta.get("ends") or node.meta.get("origin")
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name, old.name = old.name, None


def _read_instead(node: ir.Node, value: ir.Value) -> bool:
    """Let a value that exists take the place of a node's result. Whether it could: an output has one name."""
    old, graph = node.outputs[0], node.graph
    if value.shape is None:
        value.shape, value.type = old.shape, value.type or old.type
    if not old.is_graph_output():
        old.replace_all_uses_with(value)
        return True
    producer = value.producer()
    if producer is None or producer.graph is not graph or value.is_graph_output():
        return False
    value.shape = old.shape
    old.replace_all_uses_with(value, replace_graph_outputs=True)
    value.name, old.name = old.name, None
    return True


def _producers(node: ir.Node) -> list[ir.Node]:
    found = [value.producer() for value in node.inputs if value is not None]
    return [each for each in found if each is not None]


def _remove_unread(*nodes: ir.Node) -> None:
    """Remove each node whose results nothing reads, and those that only such nodes have read."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.graph is None or any(output.uses() or output.is_graph_output() for output in node.outputs):
            continue
        if next(subgraphs_of(node), None) is not None:  # Nodes inside of them read values too.
            continue
        waiting += _producers(node)
        node.graph.remove(node, safe=True)
