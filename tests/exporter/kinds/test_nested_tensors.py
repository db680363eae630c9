"""Nested tensors in programs: what is exported is covered by op_cases/nested_tensors.py; what is refused, and what
torch itself has no kernel for on the CPU, is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nested

import onnx_parity

VALUES, OFFSETS = torch.randn(7, 4), torch.tensor([0, 1, 4, 7])
_INSTEAD = "call it with nt.to_padded_tensor(padding) and a mask of the padding, or with nt.values() and nt.offsets()"


def _nested(values: Tensor, offsets: Tensor) -> Any:
    return nested.nested_tensor_from_jagged(values, offsets)


def returned(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets)


def without_rule(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets).cumsum(1).values()


def other_offsets(values: Tensor, offsets: Tensor) -> Any:
    return (_nested(values, offsets) + _nested(values, offsets * 1)).values()


def two_layouts(values: Tensor, offsets: Tensor) -> Any:
    return torch.add(_nested(values, offsets), nested.as_nested_tensor([values]))


def along_rows(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets).squeeze(0)


def computes_with_size(values: Tensor, offsets: Tensor) -> Any:
    return values * (_nested(values, offsets).size(1) + 1)


def of_two_sizes(values: Tensor, offsets: Tensor) -> Any:
    return nested.nested_tensor([values, values[:2, :2]], layout=torch.jagged).values()


def requires_grad(values: Tensor, offsets: Tensor) -> Any:
    return nested.nested_tensor([values], layout=torch.jagged, requires_grad=True).values()


def unlike(values: Tensor, offsets: Tensor) -> Any:
    return (_nested(values, offsets) + torch.ones(5, 4)).values()


def of_strided(values: Tensor, offsets: Tensor) -> Any:
    return (nested.as_nested_tensor([values, values]) + torch.ones(4)).to_padded_tensor(0.0)


def other_view(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets).view(12, 4)


def chunks_of_moved(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets).transpose(1, 2).chunk(2)[0].values()


def norm_between_holes(values: Tensor, offsets: Tensor) -> Any:
    nt: Any = nested.nested_tensor_from_jagged(values, offsets, torch.tensor([1, 2, 3]))
    return F.layer_norm(nt, (nt.size(1), 4)).values()


def outer(values: Tensor, offsets: Tensor) -> Any:
    nt = _nested(values, offsets)
    return nt @ nt.transpose(1, 2)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            returned,
            "the program returns a nested tensor, which ONNX does not have: return nt.values() and nt.offsets(), or "
            "nt.to_padded_tensor(padding)",
        ),
        (
            without_rule,
            f"the program gives a nested tensor to cumsum, which the exporter does not have for nested tensors: "
            f"{_INSTEAD}",
        ),
        (
            other_offsets,
            "the program gives add two nested tensors that were made of different offsets, which torch takes for "
            "different lengths: make both of the same tensor of offsets",
        ),
        (
            two_layouts,
            "the program gives add nested tensors of two layouts: make both with layout=torch.jagged",
        ),
        (
            along_rows,
            "the program calls squeeze along the axis of a nested tensor of the rows, which torch cannot do either, or "
            "for which the exporter has no rule: use nt.to_padded_tensor(padding) or nt.values()",
        ),
        (
            computes_with_size,
            "the program computes with the size of a ragged axis, which is another for each row: use the lengths of "
            "the rows, nt.offsets().diff()",
        ),
        (
            chunks_of_moved,
            "the program gives a nested tensor to chunk along its rows after its ragged axis has moved, which the "
            f"exporter does not have for nested tensors: {_INSTEAD}",
        ),
        (
            norm_between_holes,
            "the program gives a nested tensor to layer_norm over its ragged axis, with weights or with other values "
            f"between its rows, which the exporter does not have for nested tensors: {_INSTEAD}",
        ),
        (of_two_sizes, "the program makes a jagged nested tensor of parts that differ in more than one size"),
        (
            requires_grad,
            "the program makes a nested tensor that requires gradients: make it with torch.nested.as_nested_tensor of "
            "tensors that do",
        ),
        (
            unlike,
            "the program gives add a nested tensor of the shape (3, ragged, 4), and a dense one of the shape (5, 4) "
            "that torch does not broadcast with it: give one of as many axes and rows",
        ),
        (
            of_strided,
            "the program gives add a nested tensor of the strided layout and a dense tensor, which have no shape in "
            "common: make the nested one with layout=torch.jagged",
        ),
        (
            other_view,
            "the program gives view the shape (12, 4) for a nested tensor of the shape (3, ragged, 4): its first axes, "
            "up to the ragged one, have to stay, and nt.size(1) or -1 stands for the size of the ragged one",
        ),
        (
            outer,
            "the program multiplies matrices of the shapes (3, ragged, 4) and (3, 4, ragged), which torch does not for "
            "nested tensors, or for which the exporter has no rule: use nt.to_padded_tensor(0.0)",
        ),
    ],
)
def test_what_is_not_exported_is_refused(program: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as refusal:
        onnx_parity.export(program, (VALUES, OFFSETS))
    assert str(refusal.value).startswith(message)


def test_rows_of_which_there_may_be_any_number_are_not_taken_apart() -> None:
    def program(values: Tensor, offsets: Tensor) -> Any:
        return _nested(values, offsets).unbind()

    with pytest.raises(onnx_parity.CaptureError) as refusal:
        onnx_parity.export(program, (VALUES, OFFSETS), dynamic_axes={"offsets": {0: "rows"}})
    assert str(refusal.value).startswith(
        "the program takes a nested tensor apart into its rows, the number of which is dynamic: leave that axis out of "
        "dynamic_axes, or use nt.to_padded_tensor(padding)"
    )


def test_an_argument_is_to_be_nested_inside_of_the_program() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as refusal:
        onnx_parity.export(lambda nt: nt.values(), (_nested(VALUES, OFFSETS),))
    assert str(refusal.value) == (
        "the argument 'nt' is a nested tensor: give its values and its offsets, and call "
        "torch.nested.nested_tensor_from_jagged inside the program"
    )


def _heads(values: Tensor, offsets: Tensor) -> Any:
    return _nested(values, offsets).unflatten(-1, [2, 2]).transpose(1, 2)


def test_causal_attention_is_that_of_each_row() -> None:
    """torch has it on GPUs only."""

    def program(values: Tensor, offsets: Tensor) -> Any:
        heads = _heads(values, offsets)
        return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2).values()

    exported = onnx_parity.export(program, (VALUES, OFFSETS))
    for offsets in (OFFSETS, torch.tensor([0, 5, 5, 7])):
        rows = [row.unflatten(-1, [2, 2]).transpose(0, 1) for row in VALUES.split(offsets.diff().tolist())]
        expected = [F.scaled_dot_product_attention(row, row, row, is_causal=True).transpose(0, 1) for row in rows]
        torch.testing.assert_close(exported(VALUES, offsets), torch.cat(expected).flatten(1))


def test_keys_and_values_may_have_other_lengths_than_queries() -> None:
    def program(values: Tensor, offsets: Tensor, keys: Tensor, of_keys: Tensor) -> Any:
        others = _heads(keys, of_keys)
        return F.scaled_dot_product_attention(_heads(values, offsets), others, others).values()

    args = VALUES, OFFSETS, torch.randn(5, 4), torch.tensor([0, 2, 4, 5])
    exported = onnx_parity.export(program, args)
    for of_keys in (args[3], torch.tensor([0, 0, 1, 5])):
        torch.testing.assert_close(exported(*args[:3], of_keys), program(*args[:3], of_keys))


def test_gradients_through_padding_are_those_of_the_values() -> None:
    """torch has no derivative of the kernels that pad."""

    def program(values: Tensor, offsets: Tensor) -> Tensor:
        values = values.requires_grad_()
        total = _nested(values.sin(), offsets).sum(1).square().sum()
        (gradient,) = torch.autograd.grad(total, values)
        return gradient

    exported = onnx_parity.export(program, (VALUES, OFFSETS))
    for offsets in (OFFSETS, torch.tensor([0, 0, 5, 7])):
        values = VALUES.clone().requires_grad_()
        sums = [row.sum(0) for row in values.sin().split(offsets.diff().tolist())]
        (expected,) = torch.autograd.grad(torch.stack(sums).square().sum(), values)
        torch.testing.assert_close(exported(VALUES, offsets), expected)
