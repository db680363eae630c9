"""Results whose number of axes depends on sizes or on values: what may be done with them, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnx_parity

_FILE = __file__
#: The line of the `return` in the `if` of `two_ranks`, which is where TorchScript places the branch.
_TESTED = 71


def _exported(program: object, x: Tensor, opset: int = 18, **axes: str) -> onnx_parity.ONNXProgram:
    dynamic = {"x": dict(enumerate(axes.values()))}
    return onnx_parity.export(program, (x,), input_names=["x"], dynamic_axes=dynamic, opset_version=opset)  # type: ignore[arg-type]


def squeezed(x: Tensor) -> Tensor:
    return x.squeeze(0)


def test_a_squeeze_drops_an_axis_where_its_size_is_one() -> None:
    program = _exported(squeezed, torch.randn(3, 2), rows="rows")
    assert [program(torch.ones(n, 2)).shape for n in (1, 2, 5)] == [(2,), (2, 2), (5, 2)]


def test_the_output_is_declared_with_the_axes_of_the_example() -> None:
    (output,) = _exported(squeezed, torch.randn(3, 2), rows="rows").model_proto.graph.output
    assert [axis.WhichOneof("value") for axis in output.type.tensor_type.shape.dim] == [None, None]


def test_before_opset_11_such_a_squeeze_is_refused() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as refused:
        _exported(squeezed, torch.randn(3, 2), opset=9, rows="rows")
    assert (
        "aten::squeeze.dim: the number of axes of its result depends on whether axis 0 has size 1, and ONNX's If does "
        "not return different shapes at this opset (possible from opset 11)"
    ) in str(refused.value)


def needs_to_know(x: Tensor) -> Tensor:
    return x.squeeze(0).sum(-1)


def test_where_the_number_of_axes_is_needed_the_example_decides_with_a_warning() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="is False in the example"):
        program = _exported(needs_to_know, torch.randn(3, 2), rows="rows")
    assert program(torch.ones(4, 2)).tolist() == [2, 2, 2, 2]


def test_and_an_axis_of_size_one_in_the_example_is_refused() -> None:
    with pytest.raises(onnx_parity.DynamicAxisError):
        _exported(needs_to_know, torch.randn(1, 2), rows="rows")


def reads_the_shape(x: Tensor) -> Tensor:
    return x * x.squeeze(0).ndim


def test_so_is_the_shape_read_in_python() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="is False in the example"):
        _exported(reads_the_shape, torch.randn(3, 2), rows="rows")


@torch.jit.script
def two_ranks(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x.sum(0)
    return x


def uses_two_ranks(x: Tensor) -> Tensor:
    y: Tensor = two_ranks(x)
    return y.softmax(0)


def test_branches_may_return_tensors_of_other_ranks() -> None:
    program = _exported(two_ranks, torch.ones(3, 2))
    assert program(torch.ones(3, 2)).tolist() == [3, 3]
    assert program(-torch.ones(3, 2)).shape == (3, 2)


def test_what_needs_to_know_the_rank_of_branches_is_refused() -> None:
    with pytest.raises(onnx_parity.CaptureError) as refused:
        _exported(uses_two_ranks, torch.ones(3, 2))
    used = uses_two_ranks.__code__.co_firstlineno + 2
    assert str(refused.value) == (
        f"the number of axes of a tensor at {_FILE}:{_TESTED} depends on sizes or values, and the program uses the "
        f"tensor at {_FILE}:{used} in a way that needs to know it: return it, or compute only what is done to each "
        "element by itself, or give it the same number of axes in every case"
    )
