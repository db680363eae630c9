"""Whether a tensor of a script is written to in place while another variable has the same memory and is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["is_seen_elsewhere"]


def is_seen_elsewhere(graph: Any, output: Any) -> bool:
    """Whether a script writes to a value, or to what it may be a view of, and then reads that under another name.

    torch's own analysis of the graph tells which values may have the same memory.
    """
    aliases = graph.alias_db()
    #: The value itself and views of it, by their numbers in the graph.
    own = {output.unique()}
    has_begun, is_written, is_written_elsewhere = False, False, False
    for inputs, outputs, writes in _in_order(graph):
        if not has_begun:
            has_begun = any(each.unique() == output.unique() for each in outputs)
            continue
        same = [each for each in inputs if aliases.may_contain_alias(each, output)]
        here = [each for each in same if each.unique() in own]
        if (is_written and len(here) < len(same)) or (is_written_elsewhere and here):
            return True
        if writes and same and inputs[0].unique() == same[0].unique():
            is_written |= same[0].unique() in own
            is_written_elsewhere |= same[0].unique() not in own
        if here:
            own |= {each.unique() for each in outputs if aliases.may_contain_alias(each, output)}
    return False


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
