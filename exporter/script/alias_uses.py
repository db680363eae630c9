"""Whether a tensor of a script is written to in place while another variable has the same memory and is read.

torch's own analysis of the graph takes all arguments and attributes as perhaps the same tensor, and does not see that a
loop of no iterations returns what it was given. So memory is followed here: each value has the memory of what it may be
a view of, of what a branch or a loop may return for it, or of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

__all__ = ["Aliases"]

#: The places that values may have their memory from: values that are new tensors, arguments, and attributes by name.
_Sources = frozenset[Hashable]

#: Operators that return their argument or what they take out of it, though their schemas do not say so.
_THROUGH = frozenset(
    {
        "aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout",
        "aten::__getitem__", "aten::pop", "aten::popitem", "aten::get", "aten::setdefault", "aten::items",
        "aten::values", "aten::list", "aten::copy", "aten::dict",
        "prim::TupleUnpack", "prim::ListUnpack", "prim::TupleIndex", "prim::unchecked_cast",
        "aten::_unwrap_optional", "prim::unchecked_unwrap_optional",
    }
)  # fmt: skip
_CONSTRUCTS = frozenset({"prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct"})


class Aliases:
    """Which values of a script may have the same memory."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._sources: dict[int, _Sources] = {each.unique(): frozenset({each.unique()}) for each in graph.inputs()}
        #: What was put into the lists, dicts and attributes that come from a place.
        self._put: dict[Hashable, _Sources] = {}
        self._names: dict[int, str] = {}
        self._has_changed = True
        while self._has_changed:
            self._has_changed = False
            self._follow(graph)

    def may_be(self, one: Any, other: Any) -> bool:
        """Whether two values may have the same memory, or contain tensors that have."""
        return not self.of(one).isdisjoint(self.of(other))

    def of(self, value: Any) -> _Sources:
        """Where the memory of a value, or of what it contains, may be from."""
        reached = self._sources.get(value.unique(), frozenset())
        waiting = list(reached)
        while waiting:
            new = self._put.get(waiting.pop(), frozenset()) - reached
            reached |= new
            waiting += new
        return reached

    def is_seen_elsewhere(self, output: Any) -> bool:
        """Whether the script writes to a value, or to what it may be a view of, and reads that under another name."""
        sources = self.of(output)
        #: The value itself, views of it, and what branches and loops make of it.
        own = {output.unique()}
        has_begun, is_written, is_written_elsewhere = False, False, False
        for inputs, outputs, reads, writes in _in_order(self._graph):
            if not has_begun:
                has_begun = any(each.unique() == output.unique() for each in outputs)
                continue
            same = [each for each in inputs if not sources.isdisjoint(self.of(each))]
            here = [each for each in same if each.unique() in own]
            if reads and ((is_written and len(here) < len(same)) or (is_written_elsewhere and here)):
                return True
            if writes and same and inputs[0].unique() == same[0].unique():
                is_written |= same[0].unique() in own
                is_written_elsewhere |= same[0].unique() not in own
            if here:
                own |= {each.unique() for each in outputs if not sources.isdisjoint(self.of(each))}
        return False

    # --- where memory is from ---------------------------------------------------------------------------------------

    def _follow(self, block: Any) -> None:
        for node in block.nodes():
            kind, inputs, outputs = node.kind(), list(node.inputs()), list(node.outputs())
            if kind == "prim::Loop":
                (body,) = node.blocks()
                carried, returned = inputs[2:], list(body.outputs())[1:]
                for start, inside in zip(carried, list(body.inputs())[1:], strict=True):
                    self._add(inside, self.of(start))
                self._follow(body)
                for start, inside, end, out in zip(carried, list(body.inputs())[1:], returned, outputs, strict=True):
                    self._add(inside, self.of(end))
                    self._add(out, self.of(start) | self.of(end))
                continue
            for inner in node.blocks():
                self._follow(inner)
                for out, end in zip(outputs, inner.outputs(), strict=False):
                    self._add(out, self.of(end))
            if kind == "prim::If":
                continue
            if kind in ("prim::GetAttr", "prim::SetAttr"):
                name = f"{self._names.get(inputs[0].unique(), '')}.{node.s('name')}"
                if outputs:
                    self._names[outputs[0].unique()] = name
                    self._add(outputs[0], frozenset({name}))
                else:
                    self._put_into(name, self.of(inputs[1]))
            elif kind in _CONSTRUCTS:
                self._add(outputs[0], frozenset({outputs[0].unique()}).union(*map(self.of, inputs)))
            elif kind in _THROUGH or (inputs and _returns_first(node)):
                for out in outputs:
                    self._add(out, self.of(inputs[0]))
            else:
                for out in outputs:
                    self._add(out, frozenset({out.unique()}))
            if len(inputs) > 1 and _changes_container(node):
                for place in self.of(inputs[0]):
                    self._put_into(place, frozenset().union(*map(self.of, inputs[1:])))

    def _add(self, value: Any, sources: _Sources) -> None:
        known = self._sources.get(value.unique(), frozenset())
        if not sources <= known:
            self._sources[value.unique()] = known | sources
            self._has_changed = True

    def _put_into(self, place: Hashable, sources: _Sources) -> None:
        known = self._put.get(place, frozenset())
        if not sources <= known:
            self._put[place] = known | sources
            self._has_changed = True


#: The inputs and outputs of a node, whether it reads them, and whether it writes to the first one.
_Use = tuple[Sequence[Any], Sequence[Any], bool, bool]


def _in_order(block: Any) -> Iterator[_Use]:
    """The uses of values. A loop first gives what it carries to its body. A node with blocks comes after the nodes in
    them, and has their results among its inputs; those of the graph come last."""
    for node in block.nodes():
        inputs = list(node.inputs())
        for inner in node.blocks():
            if node.kind() == "prim::Loop":
                for start, inside in zip(inputs[2:], list(inner.inputs())[1:], strict=True):
                    yield [start], [inside], False, False
            yield from _in_order(inner)
        yield inputs, list(node.outputs()), True, _writes(node)
    yield list(block.outputs()), [], True, False


def _first_parameter(node: Any) -> str:
    """The schema of the first parameter: `Tensor(a!) self`."""
    schema = node.schema()
    return "" if schema == "(no schema)" else schema.partition("(")[2].partition(",")[0]


def _writes(node: Any) -> bool:
    first = _first_parameter(node)
    return "!" in first and "Tensor" in first


def _changes_container(node: Any) -> bool:
    first = _first_parameter(node)
    return "!" in first and "Tensor" not in first


def _returns_first(node: Any) -> bool:
    """Whether the schema says that the first argument is returned, or a view of it."""
    first, returned = _first_parameter(node), node.schema().rpartition("->")[2]
    return "Tensor" in first and "(a" in first and "(a" in returned
