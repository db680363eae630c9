"""Whether a tensor of a script is written to in place while another variable has the same memory and is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Aliases"]


class Aliases:
    """Which values of a script may have the same memory.

    torch's own analysis tells it, except that a loop of no iterations returns what it was given.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._known = graph.alias_db()
        self._carried = [pair for node in _nodes(graph) if node.kind() == "prim::Loop" for pair in _in_and_out_of(node)]

    def may_be(self, one: Any, other: Any) -> bool:
        """Whether two values may have the same memory, or contain tensors that have."""
        reached, waiting = [one], [one]
        while waiting:
            value = waiting.pop()
            if self._known.may_contain_alias(value, other):
                return True
            for pair in self._carried:
                for near, far in (pair, pair[::-1]):
                    is_new = all(far.unique() != each.unique() for each in reached)
                    if is_new and self._known.may_contain_alias(value, near):
                        reached.append(far)
                        waiting.append(far)
        return False

    def is_seen_elsewhere(self, output: Any) -> bool:
        """Whether the script writes to a value, or to what it may be a view of, and reads that under another name."""
        #: The value itself and views of it, by their numbers in the graph.
        own = {output.unique()}
        has_begun, is_written, is_written_elsewhere = False, False, False
        for inputs, outputs, writes in _in_order(self._graph):
            if not has_begun:
                has_begun = any(each.unique() == output.unique() for each in outputs)
                continue
            same = [each for each in inputs if self.may_be(each, output)]
            here = [each for each in same if each.unique() in own]
            if (is_written and len(here) < len(same)) or (is_written_elsewhere and here):
                return True
            if writes and same and inputs[0].unique() == same[0].unique():
                is_written |= same[0].unique() in own
                is_written_elsewhere |= same[0].unique() not in own
            if here:
                own |= {each.unique() for each in outputs if self.may_be(each, output)}
        return False


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _in_and_out_of(loop: Any) -> Iterator[tuple[Any, Any]]:
    """What a loop is given, after its limit and whether it goes on, and what it returns for it."""
    return zip(list(loop.inputs())[2:], loop.outputs(), strict=True)


def _in_order(block: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any], bool]]:
    """The inputs and outputs of each node, and whether it writes to the first input. A node with blocks comes after the
    nodes in them, and has their results among its inputs; those of the graph come last."""
    for node in block.nodes():
        inputs = list(node.inputs())
        for inner in node.blocks():
            yield from _in_order(inner)
        yield inputs, list(node.outputs()), _writes(node)
    yield list(block.outputs()), [], False


def _writes(node: Any) -> bool:
    schema = node.schema()
    return schema != "(no schema)" and "!" in schema.partition("->")[0].partition(",")[0]
