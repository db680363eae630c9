"""Paddings that the operator after them does itself."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.pads import PADS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def padded(operator: str, pads: str = "0, 0, 1, 1, 0, 0, 1, 1", size: str = "1,2,6,6", more: str = "") -> str:
    return f"""(float[1,2,4,4] x) => (float[{size}] y) <int64[8] p = {{{pads}}}, float f = {{0}}{more}> {{
        a = Pad (x, p, f)
        y = {operator}
    }}"""


def test_a_convolution_pads_by_more() -> None:
    kernel = f"float[1,2,3,3] w = {{{', '.join(['0.5'] * 18)}}}"
    assert_rewritten(
        PADS,
        padded("Conv <kernel_shape = [3, 3], pads = [1, 0, 1, 0]> (a, w)", size="1,1,6,4", more=f", {kernel}"),
        f"""(float[1,2,4,4] x) => (float[1,1,6,4] y) <{kernel}> {{
            y = Conv <kernel_shape = [3, 3], pads = [2, 1, 2, 1]> (x, w)
        }}""",
    )


def test_an_average_pooling_counts_what_the_program_pads_with() -> None:
    assert_rewritten(
        PADS,
        padded("AveragePool <kernel_shape = [2, 2]> (a)", size="1,2,5,5"),
        """(float[1,2,4,4] x) => (float[1,2,5,5] y) {
            y = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1> (x)
        }""",
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (
            padded("MaxPool <kernel_shape = [2, 2]> (a)", size="1,2,5,5"),
            "the program pads with something else, or by amounts that are not known",
        ),
        (
            padded("AveragePool <kernel_shape = [2, 2]> (a)", "0, 1, 1, 1, 0, 0, 1, 1").replace(
                "[1,2,6,6] y", "[1,3,5,5] y"
            ),
            "the program pads the batch or the channels, or takes elements away",
        ),
        (
            padded("AveragePool <kernel_shape = [1, 1]> (a)"),
            "a window may lie in the padding",
        ),
        (
            padded("AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (a)", size="1,2,7,7"),
            "it pads already, or rounds its size up",
        ),
        (
            padded('AveragePool <kernel_shape = [2, 2], auto_pad = "VALID"> (a)', size="1,2,5,5"),
            "it chooses its padding itself",
        ),
    ],
)
def test_paddings_that_stay(text: str, because: str) -> None:
    assert_stays(PADS, text, because)
