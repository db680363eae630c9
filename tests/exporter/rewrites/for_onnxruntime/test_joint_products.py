"""Products of the same rows as one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import onnx_parity


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 6, bias=False), nn.Linear(4, 5, bias=False), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sigmoid(self.gate(x)), self.down(self.up(x))


def _operators(program: onnx_parity.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


def test_products_of_the_same_rows_are_one() -> None:
    program = onnx_parity.export(
        _Gated(), (torch.randn(2, 3, 4),), dynamic_axes={"x": {1: "rows"}}, target="onnxruntime", verify=True
    )
    assert _operators(program).count("MatMul") == 2 and _operators(program).count("Split") == 1


def test_other_weights_may_be_applied() -> None:
    program = onnx_parity.export(_Gated(), (x := torch.randn(2, 3, 4),), target="onnxruntime")
    other = _Gated()
    program.apply_weights(other.state_dict())
    for one, expected in zip(program(x), other(x), strict=True):
        torch.testing.assert_close(one, expected.detach(), rtol=1e-4, atol=1e-5)


def test_a_weight_that_is_read_elsewhere_stays() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.one + x @ self.other) @ self.other

    program = onnx_parity.export(Tied(), (torch.randn(3, 4),), target="onnxruntime", verify=True)
    assert "Split" not in _operators(program)
