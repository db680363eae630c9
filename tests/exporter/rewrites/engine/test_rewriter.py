"""The rewriter: which nodes it looks at, and what it carries over."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_parity.exporter.rewrites.engine.rewriter import (
    NoMatch,
    Op,
    Rewrite,
    Walk,
    apply_rewrites,
    first_match,
    op,
    operators_of,
    read_found,
)
from tests.exporter.rewrites.models import assert_rewritten, assert_stays, parsed


def find_negated(node: ir.Node, _walk: Walk) -> ir.Node | NoMatch:
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    return before if before is not None and before.op_type == "Neg" else NoMatch("it is not negated")


def subtract(node: ir.Node, before: ir.Node, walk: Walk) -> Op:
    """Abs(-x) as |0 - x|, in the place of the node before."""
    x = before.inputs[0]
    assert x is not None and x.dtype is not None
    zero = walk.constants.number(0, x.dtype, node)
    return op("Abs", op("Sub", zero, x, sizes=x.shape), instead_of=before)


SUBTRACTED = (
    Rewrite(name="absolute of a negative", at=("Abs",), find=find_negated, write=subtract, since=9, until=20),
)
TWICE = (Rewrite(name="negated twice", at=("Neg",), find=lambda n, w: _source(find_negated(n, w)), write=read_found),)


def _source(found: ir.Node | NoMatch) -> ir.Value | NoMatch:
    if isinstance(found, NoMatch):
        return found
    assert found.inputs[0] is not None
    return found.inputs[0]


TEXT = "(float[2] x) => (float[2] y) { a = Neg (x) b = Abs (a) y = Exp (b) }"


def test_a_node_is_changed_in_its_place_and_another_stands_before_it() -> None:
    after = """(float[2] x) => (float[2] y) <float b_number_0 = {0}> {
        val_0 = Sub (b_number_0, x)
        b = Abs (val_0)
        y = Exp (b)
    }"""
    assert_rewritten(SUBTRACTED, TEXT, after)


def test_a_value_that_is_read_instead_keeps_the_shape_that_is_known_of_the_other() -> None:
    model = parsed("(float[2] x) => (float[2] y) { s = Exp (x) a = Neg (s) b = Neg (a) y = Abs (b) }", 18)
    source, _, same, _ = model.graph
    source.outputs[0].shape, same.outputs[0].shape = None, ir.Shape([2])
    apply_rewrites(model, TWICE, 18, operators_of(model))
    assert [node.op_type for node in model.graph] == ["Exp", "Abs"]
    assert source.outputs[0].shape == ir.Shape([2])


def test_origins_and_types_are_carried_over() -> None:
    model = parsed(TEXT, 18)
    negative, absolute, _ = model.graph
    negative.meta["origin"], absolute.meta["origin"] = "neg", "abs"
    negative.metadata_props["key"], negative.doc_string = "value", "documented"
    negative.name = "first"
    apply_rewrites(model, SUBTRACTED, 18, operators_of(model))
    added, changed, _ = model.graph
    assert changed is negative
    assert (added.meta["origin"], added.metadata_props["key"], added.doc_string) == ("neg", "value", "documented")
    # What a node computes now is what the last one computed that it stands for.
    assert (changed.name, changed.meta["origin"], changed.meta["ends"]) == ("first", "neg", "abs")
    for node in (added, changed):
        assert node.outputs[0].dtype is ir.DataType.FLOAT and node.outputs[0].shape == ir.Shape([2])


def test_opsets_at_which_a_rewrite_applies() -> None:
    for opset in (8, 21):
        model = parsed(TEXT, opset)
        assert not apply_rewrites(model, SUBTRACTED, opset, operators_of(model))


def test_a_table_without_operators_of_the_model_is_skipped_until_a_rewrite_adds_one() -> None:
    model = parsed("(float[2] x) => (float[2] y) { a = Neg (x) y = Abs (a) }", 18)
    operators = {"Neg"}
    assert not apply_rewrites(model, SUBTRACTED, 18, operators)
    assert apply_rewrites(model, SUBTRACTED, 18, {"Abs"})
    operators = operators_of(parsed(TEXT, 18))
    apply_rewrites(parsed(TEXT, 18), SUBTRACTED, 18, operators)
    assert operators == {"Neg", "Abs", "Exp", "Sub"}


def test_operators_of_other_domains_are_left_alone() -> None:
    model = parsed("(float[2] x) => (float[2] y) { a = Neg (x) y = mine.Abs (a) }", 18)
    assert not apply_rewrites(model, SUBTRACTED, 18, operators_of(model))


def test_what_only_removed_nodes_have_read_is_removed() -> None:
    model = parsed("(float[2] x) => (float[2] y) { s = Sin (x) a = Neg (s) b = Neg (a) y = Exp (b) u = Cos (x) }", 18)
    assert apply_rewrites(model, TWICE, 18, operators_of(model))
    # What nothing has read before is not the rewriter's to remove.
    assert [node.op_type for node in model.graph] == ["Sin", "Exp", "Cos"]


BRANCHES = """(float[2] x, bool c) => (float[2] y) {
    a = Neg (x)
    y = If (c) <
        then_branch = inside () => (float[2] t) { b = Neg (a) t = Exp (b) },
        else_branch = outside () => (float[2] e) { d = Neg (x) e = Neg (d) }
    >
}"""


def test_branches_are_walked_through() -> None:
    assert_rewritten(
        TWICE,
        BRANCHES,
        """(float[2] x, bool c) => (float[2] y) {
            y = If (c) <
                then_branch = inside () => (float[2] t) { t = Exp (x) },
                else_branch = outside () => (float[2] e) { e = Identity (x) }
            >
        }""",
    )


def test_an_output_stays_where_a_rewrite_says_so() -> None:
    table = (Rewrite(name="negated twice", at=("Neg",), find=TWICE[0].find, write=read_found, for_outputs=False),)
    text = "(float[2] x) => (float[2] y) { a = Neg (x) y = Neg (a) }"
    assert_stays(table, text, "its result is an output")


def test_the_reasons_of_several_candidates_are_all_given() -> None:
    assert first_match([NoMatch("a"), NoMatch("b"), NoMatch("a")], "none") == NoMatch("a; or b")
    assert first_match([NoMatch("a"), 3], "none") == 3
    assert first_match([], "none") == NoMatch("none")


def test_a_made_value_is_shared_by_a_walk() -> None:
    model = parsed(TEXT, 18)
    walk = Walk(model.graph, 18, set(), keeps_weights=False)
    assert walk.once(_made) is walk.once(_made)
    assert walk.once(_made) is not Walk(model.graph, 18, set(), keeps_weights=False).once(_made)


def test_a_vector_of_no_numbers_is_one_of_integers() -> None:
    model = parsed(TEXT, 18)
    constants = Walk(model.graph, 18, set(), keeps_weights=False).constants
    made = [constants.vector(numbers, model.graph.node(0)) for numbers in ([], [1])]
    assert [each.dtype for each in made] == [ir.DataType.INT64] * 2
    assert [each.shape for each in made] == [ir.Shape([0]), ir.Shape([1])]


def _made(_walk: Walk) -> list[int]:
    return []


@pytest.mark.parametrize(
    ("value", "attribute"),
    [(1, ir.AttrInt64("a", 1)), (1.0, ir.AttrFloat32("a", 1.0)), ([1, 2], ir.AttrInt64s("a", [1, 2]))],
)
def test_attributes(value: float | list[int], attribute: ir.Attr) -> None:
    assert op("Neg", a=value).attributes == (attribute,)
