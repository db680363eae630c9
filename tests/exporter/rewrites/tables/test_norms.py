"""Norms that programs write themselves."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.engine.rewriter import apply_rewrites, operators_of
from onnx_parity.exporter.rewrites.tables.norms import LAYER_NORMS, RMS_NORMS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays, parsed

_CONSTANTS = "int64[1] axes = {-1}, float e = {0.001}, float two = {2}, float[4] scale = {1, 2, 3, 4}"


def root_mean_square(x: str = "x", square: str = "Pow (x, two)", last: str = "Mul (n, scale)") -> str:
    return f"""
        square = {square}
        mean = ReduceMean <keepdims = 1> (square, axes)
        sum = Add (mean, e)
        root = Sqrt (sum)
        n = Div ({x}, root)
        y = {last}
    """


def graph(nodes: str, constants: str = _CONSTANTS, dtype: str = "float", result: str = "float") -> str:
    return f"({dtype}[N,3,4] x) => ({result}[N,3,4] y) <{constants}> {{ {nodes} }}"


@pytest.mark.parametrize("square", ["Pow (x, two)", "Mul (x, x)"])
def test_a_root_mean_square_norm(square: str) -> None:
    after = graph("y = RMSNormalization <axis = -1, epsilon = 0.001> (x, scale)", "float[4] scale = {1, 2, 3, 4}")
    assert_rewritten(RMS_NORMS, graph(root_mean_square(square=square)), after, opset=23)


def test_a_root_mean_square_norm_by_a_reciprocal() -> None:
    nodes = root_mean_square().replace("n = Div (x, root)", "inverse = Reciprocal (root) n = Mul (inverse, x)")
    after = graph("y = RMSNormalization <axis = -1, epsilon = 0.001> (x, scale)", "float[4] scale = {1, 2, 3, 4}")
    assert_rewritten(RMS_NORMS, graph(nodes), after, opset=23)


def test_halves_are_normalized_in_float32() -> None:
    nodes = root_mean_square("wide", "Mul (wide, wide)", "Mul (scale, half)")
    nodes = "wide = Cast <to = 1> (x)" + nodes.replace("y =", "half = Cast <to = 10> (n) y =")
    scale = "float16[4] scale = {1, 2, 3, 4}"
    before = graph(nodes, f"int64[1] axes = {{-1}}, float e = {{0.001}}, {scale}", "float16", "float16")
    after = graph("y = RMSNormalization <axis = -1, epsilon = 0.001> (x, scale)", scale, "float16", "float16")
    assert_rewritten(RMS_NORMS, before, after, opset=23)


_ROOT = "the tensor is not divided by the root of its mean square and a number"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (graph(root_mean_square(), _CONSTANTS.replace("{-1}", "{1}")), _ROOT),
        (graph(root_mean_square(square="Abs (x)")), _ROOT),
        (graph(root_mean_square(square="Pow (x, e)")), _ROOT),
        (graph(root_mean_square(last="Mul (n, two)")), "no factor is a scale of one axis"),
        (
            graph(root_mean_square(), _CONSTANTS.replace("float[4] scale = {1, 2, 3, 4}", "float[1] scale = {2}")),
            "the scale has not one number for each feature",
        ),
        (graph(root_mean_square() + "v = Neg (n)").replace("y)", "y, float[N,3,4] v)", 1), "or read elsewhere too"),
    ],
)
def test_root_mean_square_norms_that_stay(text: str, because: str) -> None:
    assert_stays(RMS_NORMS, text, because, opset=23)


def layer_norm(centred: str = "Sub (x, m)", last: str = "Add (scaled, bias)") -> str:
    nodes = root_mean_square("c", "Mul (c, c)", "Mul (n, scale)").replace("y =", "scaled =")
    return f"m = ReduceMean <keepdims = 1> (x, axes) c = {centred} {nodes} y = {last}"


_BIAS = ", float[4] bias = {5, 6, 7, 8}"


def test_a_layer_norm() -> None:
    after = graph(
        "y = LayerNormalization <axis = -1, epsilon = 0.001> (x, scale, bias)",
        f"float[4] scale = {{1, 2, 3, 4}}{_BIAS}",
    )
    assert_rewritten(LAYER_NORMS, graph(layer_norm(), _CONSTANTS + _BIAS), after)


def test_layer_norms_that_stay() -> None:
    assert_stays(LAYER_NORMS, graph(layer_norm("Add (x, m)"), _CONSTANTS + _BIAS), "the mean is not subtracted")
    text = graph(layer_norm(), _CONSTANTS + ", float[1] bias = {5}")
    assert_stays(LAYER_NORMS, text, "the bias has not one number for each feature")


def test_early_opsets_have_no_such_operators() -> None:
    for table, text, opset in ((RMS_NORMS, root_mean_square(), 22), (LAYER_NORMS, layer_norm(), 16)):
        model = parsed(
            graph(text.replace("(x, axes)", "(x)").replace("(square, axes)", "(square)"), _CONSTANTS + _BIAS), opset
        )
        assert not apply_rewrites(model, table, opset, operators_of(model))
