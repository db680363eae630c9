"""Equal nodes are merged, and what nothing reads is removed."""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.merge_equal_nodes import merge_equal_nodes
from onnx_parity.exporter.rewrites.remove_unused import remove_unused
from tests.exporter.rewrites.models import parsed, printed


def merged(text: str, opset: int = 18) -> str:
    model = parsed(text, opset)
    merge_equal_nodes(model)
    return printed(model)


def test_a_chain_of_equal_nodes() -> None:
    before = "(float[2] x) => (float[2] y) { a = Exp (x) b = Exp (x) c = Neg (a) d = Neg (b) y = Mul (c, d) }"
    assert merged(before) == printed(
        parsed("(float[2] x) => (float[2] y) { a = Exp (x) c = Neg (a) y = Mul (c, c) }", 18)
    )


def test_several_results() -> None:
    before = "(float[4] x) => (float[2] y) { a, b = Split (x) c, d = Split (x) y = Mul (a, d) }"
    after = "(float[4] x) => (float[2] y) { a, b = Split (x) y = Mul (a, b) }"
    assert merged(before, 13) == printed(parsed(after, 13))


def test_an_output_may_be_the_first_of_equal_nodes_but_no_other() -> None:
    first = "(float[2] x) => (float[2] y, float[2] z) { y = Exp (x) a = Exp (x) z = Neg (a) }"
    after = "(float[2] x) => (float[2] y, float[2] z) { y = Exp (x) z = Neg (y) }"
    assert merged(first) == printed(parsed(after, 18))
    second = "(float[2] x) => (float[2] y, float[2] z) { a = Exp (x) z = Neg (a) y = Exp (x) }"
    assert merged(second) == printed(parsed(second, 18))


def test_nodes_that_differ_or_give_other_values_each_time_stay() -> None:
    for text in (
        "(float[2,3] x) => (float[3] y, float[2] z) "
        "{ a = ReduceMax <axes = [0], keepdims = 0> (x) b = ReduceMax <axes = [1], keepdims = 0> (x) "
        "y = Neg (a) z = Neg (b) }",
        "(float[2] x) => (float[2] y) { a = RandomUniformLike (x) b = RandomUniformLike (x) y = Sub (a, b) }",
        "(float[2] x) => (float[2] y) { a = mine.Count (x) b = mine.Count (x) y = Sub (a, b) }",
    ):
        assert merged(text, 17) == printed(parsed(text, 17))


def test_empty_lists_of_other_tensors_stay() -> None:
    for axis, count in (("n", 2), ("m", 1)):
        model = parsed("() => (int64 y) { a = SequenceEmpty () b = SequenceEmpty () y = SequenceLength (a) }", 13)
        first, second = (node.outputs[0] for node in model.graph if node.op_type == "SequenceEmpty")
        first.type = second.type = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
        first.shape, second.shape = ir.Shape(["m"]), ir.Shape([axis])
        merge_equal_nodes(model)
        assert sum(node.op_type == "SequenceEmpty" for node in model.graph) == count


def test_what_nothing_reads_is_removed_in_branches_too() -> None:
    model = parsed(
        """(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {1, 2}> {
            a = Neg (x)
            b = Mul (a, w)
            y = If (c) <
                then_branch = inside () => (float[2] t) { d = Neg (a) t = Exp (x) },
                else_branch = outside () => (float[2] e) { e = Add (x, v) }
            >
        }""",
        18,
    )
    remove_unused(model)
    after = """(float[2] x, bool c) => (float[2] y) <float[2] v = {1, 2}> {
        y = If (c) <
            then_branch = inside () => (float[2] t) { t = Exp (x) },
            else_branch = outside () => (float[2] e) { e = Add (x, v) }
        >
    }"""
    assert printed(model) == printed(parsed(after, 18))
