"""Verification at other sizes of dynamic axes: which values it gives, and what it does not hold against a model."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.tracing.silent import silent


@pytest.mark.slow
def test_elements_that_differ_in_the_example_differ_at_other_sizes() -> None:
    """Which of equal elements `topk` takes is not defined. Rows that the program wants as they are stay so."""

    def best(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            assert ((rows == 0) | (rows == 1)).all()
        return x.flatten(1).topk(2)[1] + rows.sum()

    example = torch.arange(80.0).reshape(2, 5, 8).flip(2) / 80, torch.eye(3)[:2]
    axes = {"x": {0: "batch", 1: "length"}, "rows": {0: "batch"}}
    onnx_parity.export(best, example, input_names=["x", "rows"], dynamic_axes=axes, verify=True)


def test_programs_that_refuse_moved_values_are_tried_with_the_example_s() -> None:
    def of_distributions(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting() and not torch.allclose(x.sum(1), torch.ones(x.shape[0])):
            raise ValueError("rows have to be distributions")
        return x * x.shape[0]

    example = torch.tensor([[0.1, 0.2, 0.7], [0.35, 0.05, 0.6]])
    onnx_parity.export(of_distributions, (example,), input_names=["x"], dynamic_axes={"x": {0: "batch"}}, verify=True)


def test_axes_that_are_static_keep_their_size() -> None:
    linear = torch.nn.Linear(4, 2)
    with pytest.warns(onnx_parity.errors.OnnxExporterWarning, match="static in the model"):
        onnx_parity.export(linear, (torch.rand(3, 4),), input_names=["x"], dynamic_axes={"x": [0, 1]}, verify=True)


def test_products_over_one_element_may_have_zeros_of_either_sign() -> None:
    axes = {"x": {0: "n"}}
    onnx_parity.export(
        lambda x: x.relu().T @ x, (torch.randn(4, 3),), input_names=["x"], dynamic_axes=axes, verify=True
    )


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 23])
def test_reshapes_of_empty_axes_at_any_opset(opset: int) -> None:
    """Before opset 14, a 0 in the shape of a Reshape copies a size, and onnxruntime infers what a Concat computes."""
    groups: Any = torch.nn.GroupNorm(2, 4)
    for program in (lambda x: x.flatten(2), groups, lambda x: x.transpose(0, 2).flatten(1)):
        x = torch.randn(2, 4, 3, 2)
        axes = {"x": {0: "batch", 2: "height"}}
        exported = onnx_parity.export(
            program, (x,), input_names=["x"], dynamic_axes=axes, opset_version=opset, verify=True
        )
        # Two empty axes of one reshape, neither in its place, fail before opset 14: see lowering/opsets/reshaping.py.
        for sizes in ((0, 3), (2, 0)) if program is groups and opset < 14 else ((0, 3), (2, 0), (0, 0)):
            nothing = torch.empty(sizes[0], 4, sizes[1], 2)
            torch.testing.assert_close(exported(nothing), program(nothing))


class _OfLengths(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.GRU(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        rows: torch.Tensor = torch.nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]
        return rows


def test_lengths_and_offsets_stay_in_order() -> None:
    axes = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    arguments = torch.rand(3, 7, 4), torch.tensor([7, 5, 2])
    onnx_parity.export(_OfLengths(), arguments, input_names=["x", "lengths"], dynamic_axes=axes, verify=True)
    axes = {"indices": {0: "n"}, "offsets": {0: "bags"}}
    bags = torch.nn.EmbeddingBag(9, 4, mode="mean"), (torch.randint(0, 9, (7,)), torch.tensor([0, 3]))
    onnx_parity.export(*bags, input_names=["indices", "offsets"], dynamic_axes=axes, verify=True)


def test_only_warnings_about_the_example_are_shown() -> None:
    def of_rows(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            warnings.warn(f"{len(x)} rows", UserWarning, stacklevel=1)
        return x.var(0)  # torch warns of the variance of one row.

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        onnx_parity.export(of_rows, (torch.rand(3, 4),), dynamic_axes={"x": {0: "rows"}}, verify=True)
    assert {str(warning.message) for warning in shown} == {"3 rows"}


def test_other_threads_warn_while_one_is_silent() -> None:
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with silent():
            warnings.warn("in this thread", UserWarning, stacklevel=1)
            other = threading.Thread(target=warnings.warn, args=("in another thread", UserWarning))
            other.start()
            other.join()
        warnings.warn("in this thread, afterwards", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["in another thread", "in this thread, afterwards"]
    assert list(warnings.filters) == before


def test_a_program_may_reset_the_filters_of_warnings() -> None:
    with warnings.catch_warnings():
        with silent():
            warnings.resetwarnings()
        assert not warnings.filters


def test_offsets_without_a_bag_do_not_end_the_process() -> None:
    """torch crashes in float64, in which the verification runs the program."""
    bags = torch.nn.EmbeddingBag(10, 4, mode="sum", include_last_offset=True)
    axes = {"input": {0: "indices"}, "offsets": {0: "offsets"}}
    example = torch.arange(9), torch.tensor([0, 3, 3, 9])
    program = onnx_parity.export(bags, example, input_names=[*axes], dynamic_axes=axes, verify=True)
    assert program(torch.tensor([3]), torch.tensor([0])).shape == (0, 4)


def _by_remainder(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] % 3 == 1 else x > 3


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_sizes_on_both_sides_of_a_condition_are_tried_unless_it_was_stated() -> None:
    arguments: dict[str, Any] = {"dynamic_shapes": ({0: "n"},), "verify": True}
    with pytest.raises(onnx_parity.VerificationError, match="n="):
        onnx_parity.export(_by_remainder, (torch.rand(4, 2),), **arguments)
    onnx_parity.export(_by_remainder, (torch.rand(4, 2),), **arguments, assume=["n % 3 == 1"])


def test_what_the_model_assumes_is_named_where_it_is_wrong_for_it() -> None:
    def pads(image: torch.Tensor) -> torch.Tensor:
        rows = -image.shape[0] % 4
        if rows:
            return torch.cat([image, image.new_zeros(rows, 3)]) > 0
        return image.view(-1, 4, 3)

    def doubles(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x > 0

    line = inspect.getsourcelines(pads)[1] + 2
    told = rf"\nThe model assumes \(-rows\) % 4 == 0 \(at {re.escape(__file__)}:{line}\), which does not hold"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(onnx_parity.VerificationError, match=told):
            onnx_parity.export(pads, (torch.rand(8, 3),), dynamic_shapes=({0: "rows"},), verify=True)
        with pytest.raises(onnx_parity.VerificationError, match=r"\nThe model assumes x\.sum\(\) > 0 \(at "):
            onnx_parity.export(doubles, (torch.ones(3),), verify=True)
