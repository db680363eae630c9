"""Numbers beside tensors of 16 bits: torch does not round them for products and quotients, and does for sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnx_parity

_NUMBER = 0.3

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * _NUMBER,
    "product with an integer": lambda x: x * 257,
    "product with a tensor of one number": lambda x: x * torch.tensor(_NUMBER),
    "quotient": lambda x: x / _NUMBER,
    "quotient rounded down": lambda x: torch.div(x, _NUMBER, rounding_mode="floor"),
    "sum": lambda x: x + _NUMBER,
    "difference": lambda x: _NUMBER - x,
    "sum with a multiple": lambda x: torch.add(x, x.flip(0), alpha=_NUMBER),
    "difference from a multiple": lambda x: torch.rsub(x, x.flip(0), alpha=_NUMBER),
    "remainder": lambda x: torch.remainder(x, _NUMBER),
    "remainder towards zero": lambda x: torch.fmod(x, _NUMBER),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_digit_of_bfloat16_is_torchs(name: str) -> None:
    program = PROGRAMS[name]
    x = torch.randn(512, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert torch.equal(onnx_parity.export(program, (x,), opset_version=18)(x), program(x))


def test_a_number_that_float16_has_nearly_is_rounded_so_that_the_product_stays_in_float16() -> None:
    x = torch.randn(512, generator=torch.Generator().manual_seed(0)).half()
    exported = onnx_parity.export(PROGRAMS["product"], (x,), opset_version=18)
    assert [node.op_type for node in exported.model_proto.graph.node] == ["Mul"]
    torch.testing.assert_close(exported(x), x * _NUMBER)
