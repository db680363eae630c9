"""Models with dynamic axes that are given empty tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import onnx_parity

WEIGHT = torch.linspace(-1, 1, 5 * 3 * 3 * 3).reshape(5, 3, 3, 3)
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "flatten the last axes": lambda x: x.flatten(2),
    "flatten after a convolution": lambda x: functional.conv2d(x, WEIGHT, padding=1).flatten(1),
    "join the first axes": lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2], x.shape[3]),
    "join other axes": lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[3] * x.shape[1]),
    "split an axis": lambda x: x.flatten(2).view(x.shape[0], 3, x.shape[2], x.shape[3]),
    "a product with rows": lambda x: x[:, None] @ torch.ones(x.shape[3], 2),
    "interchange axes": lambda x: x.reshape(x.shape[3], x.shape[0], 3, x.shape[2]),
}


@pytest.mark.parametrize("opset", [14, 18, 21])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_reshapes_keep_what_is_empty(program: Callable[[torch.Tensor], torch.Tensor], opset: int) -> None:
    axes = ({0: "batch", 2: "height", 3: "width"},)
    exported = onnx_parity.export(program, (torch.rand(2, 3, 4, 6),), dynamic_shapes=axes, opset_version=opset)
    assert exported.assumptions == ()
    for sizes in [(0, 3, 4, 6), (2, 3, 0, 5), (2, 3, 5, 0), (0, 3, 0, 0), (1, 3, 1, 1), (5, 3, 7, 2)]:
        x = torch.rand(sizes)
        try:
            expected = program(x)
        except RuntimeError:
            continue  # PyTorch does not convolve empty images.
        torch.testing.assert_close(exported(x), expected)
