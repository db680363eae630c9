"""Transposes that follow each other, and those after elementwise operators."""

from __future__ import annotations

from onnx_parity.exporter.rewrites.tables.transposes import ELEMENTWISE_TRANSPOSES, TRANSPOSES
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_two_transposes_become_one() -> None:
    assert_rewritten(
        TRANSPOSES,
        """(float[2,3,4] x) => (float[3,4,2] y) {
            a = Transpose <perm = [2, 0, 1]> (x)
            y = Transpose <perm = [2, 0, 1]> (a)
        }""",
        "(float[2,3,4] x) => (float[3,4,2] y) { y = Transpose <perm = [1, 2, 0]> (x) }",
    )


def test_a_transpose_that_is_undone() -> None:
    text = "(float[2,3] x) => (float[2,3] y) {{ n = Neg (x) a = Transpose (n) b = Transpose <perm = [1, 0]> (a) {} }}"
    after = "(float[2,3] x) => (float[2,3] y) {{ {} }}"
    assert_rewritten(TRANSPOSES, text.format("y = Abs (b)"), after.format("n = Neg (x) y = Abs (n)"))
    # What is an output takes its name, if it has none yet.
    output = text.format("").replace("b =", "y =")
    assert_rewritten(TRANSPOSES, output, after.format("y = Neg (x)"))
    assert_rewritten(
        TRANSPOSES, output.replace("n = Neg (x)", "").replace("(n)", "(x)"), after.format("y = Identity (x)")
    )


def test_a_transpose_that_is_read_twice_stays() -> None:
    text = """(float[2,3] x) => (float[2,3] y, float[3,2] v) {
        a = Transpose <perm = [1, 0]> (x)
        y = Transpose <perm = [1, 0]> (a)
        v = Neg (a)
    }"""
    assert_stays(TRANSPOSES, text, "the Transpose before it is read elsewhere too")


def test_a_transpose_after_an_elementwise_operator_meets_those_of_its_operands() -> None:
    assert_rewritten(
        ELEMENTWISE_TRANSPOSES,
        """(float[2,3] x, float[3,2] z, float[1] n) => (float[2,3] y) {
            a = Transpose <perm = [1, 0]> (x)
            b = Transpose <perm = [1, 0]> (z)
            c = Transpose <perm = [1, 0]> (b)
            d = Where (e, a, c)
            e = Greater (a, n)
            f = Transpose <perm = [1, 0]> (d)
            y = Neg (f)
        }""".replace("d = Where (e, a, c)\n            e = Greater (a, n)", "d = Mul (a, c)"),
        """(float[2,3] x, float[3,2] z, float[1] n) => (float[2,3] y) {
            b = Transpose <perm = [1, 0]> (z)
            f = Mul (x, b)
            y = Neg (f)
        }""",
    )


def test_transposes_after_operators_that_stay() -> None:
    text = """(float[2,3] x, float[2,3] z) => (float[3,2] y) {
        a = Add (x, z)
        b = Transpose <perm = [1, 0]> (a)
        y = Neg (b)
    }"""
    assert_stays(ELEMENTWISE_TRANSPOSES, text, "no fewer Transposes would remain")
    assert_stays(ELEMENTWISE_TRANSPOSES, text.replace("[2,3] z", "[3] z"), "an operand has fewer axes")
    assert_stays(ELEMENTWISE_TRANSPOSES, text.replace("Neg (b)", "MatMul (b, a)").replace("3,2] y", "3,3] y"), "read")
    assert_stays(ELEMENTWISE_TRANSPOSES, text.replace("Add", "Mod"), "it does not follow an elementwise operator")


def test_what_was_transposed_may_have_unknown_sizes() -> None:
    text = """(float[?,?,?] w, float[?,?,?] v) => (float[4,2,3] y) <float[3,4,2] s, float[3,4,2] t> {
        s = Transpose <perm = [1, 2, 0]> (w)
        t = Transpose <perm = [1, 2, 0]> (v)
        a = Add (s, t)
        b = Transpose <perm = [1, 2, 0]> (a)
        y = Neg (b)
    }"""
    assert_stays(ELEMENTWISE_TRANSPOSES, text, "the sizes of what was transposed are not known")
