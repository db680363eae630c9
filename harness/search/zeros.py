"""Where the sign of a zero means nothing: ONNX does not say which one an operator gives, or says another than torch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx_parity.harness.search.generated import Program

#: Functions of torch, with the reason. The declarations of `op_cases/` that have `signed_zeros=False` accept the same.
WITHOUT_SIGN: Mapping[str, str] = {
    "softshrink": "torch gives zeros the sign of the input, and ONNX's Shrink, like the form for earlier opsets, none",
    "layer_norm": "where a value is its own mean, the formula decides over the sign, and ONNX leaves the formula open",
}
_CALLED = re.compile(rf"\b(?:{'|'.join(WITHOUT_SIGN)})(?=\()")


def have_sign(program: Program) -> bool:
    """Whether the signs of a program's zeros are compared: it calls no function that gives them none."""
    return not any(_CALLED.search(line.text) for line in program.lines)
