"""Parts of Fourier transforms as products with tables."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.engine.rewriter import apply_rewrites, operators_of
from onnx_parity.exporter.rewrites.tables.fourier_transforms import FOURIER_TRANSFORMS
from tests.exporter.rewrites.models import assert_stays, parsed, printed, results


def transformed(transforms: str, part: int = 0, sizes: str = "2,4") -> str:
    last = sizes.count(",") + 1
    return f"""(float[{sizes}] x) => (float[{sizes}] y) <int64[1] axes = {{{last}}}, int64 which = {{{part}}}> {{
        a = Unsqueeze (x, axes)
        b = Cast <to = 11> (a)
        {transforms}
        e = Cast <to = 1> (d)
        y = Gather <axis = {last}> (e, which)
    }}"""


_LAST, _BOTH = "d = DFT <axis = 1> (b)", "c = DFT <axis = 1> (b) d = DFT <axis = 0> (c)"


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(
    ("transforms", "nodes"),
    [
        (_LAST, "y = MatMul (x, y_table_0)"),
        ("d = DFT <axis = 0> (b)", "y = MatMul (y_table_0, x)"),
        (
            _BOTH,
            "val_0 = MatMul (x, y_table_0)\n   val_1 = Reshape (val_0, y_numbers_0)\n   y = MatMul (y_table_1, val_1)",
        ),
    ],
)
def test_products_with_tables(transforms: str, nodes: str, part: int) -> None:
    model, plain = (parsed(transformed(transforms, part), 18) for _ in range(2))
    assert apply_rewrites(model, FOURIER_TRANSFORMS, 18, operators_of(model))
    assert nodes in printed(model)
    (expected,), (actual,) = results(plain), results(model)
    assert actual == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (
            transformed("d = DFT <axis = 1, inverse = 1> (b)"),
            "a transform is an inverse, or of one side, or of another length",
        ),
        (transformed("d = DFT <axis = 0> (b)", sizes="2,3,4"), "it is not transformed along the last axis"),
        (transformed(_LAST, sizes="2,2048"), "there are too many points, or their number is not known"),
        (transformed(_LAST, part=-1), "it does not take a part of what was cast to float32"),
    ],
)
def test_transforms_that_stay(text: str, because: str) -> None:
    assert_stays(FOURIER_TRANSFORMS, text, because)
