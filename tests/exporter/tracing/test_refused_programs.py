"""Programs that cannot be recorded: the text of the error, with the program's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import onnx_parity

X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            lambda x: x.t().as_strided((2, 2), (1, 1)),
            "as_strided cannot be exported with dynamic sizes for a tensor that is not contiguous, or from another "
            "place than its first element: call contiguous() before it, or use slices, unfold or expand, which select "
            "elements",
        ),
        (
            lambda x: X.as_strided((2, 2), (100, 1)) + x[:, :2],
            "as_strided([2, 2], [100, 1], 0) reaches memory outside of its tensor of shape [2, 3]: call it on the "
            "whole tensor that owns the memory",
        ),
        (
            lambda x: (x + 1).set_(x.untyped_storage(), 0, (2, 2)),
            "the program gives a tensor other memory with set_: a model can only take another whole tensor for it, "
            "x.set_(y)",
        ),
        (
            lambda x: torch.cond(x.sum() > 0, lambda x: (x, x), lambda x: [x, x], (x,)),
            "the branches of torch.cond return different structures, (_, _) and [_, _]: return the same structure from "
            "both",
        ),
        (
            lambda x: while_loop(lambda x: x.sum() > 0, lambda x: (x, x), (x,)),
            "the body of while_loop takes (_,) but returns (_, _): return the structure that it takes",
        ),
        (
            lambda x: scan(lambda carry, row: (torch.cat([carry, carry]), row), x[0], x)[1],
            "scan carries a float32 tensor of 1 axes of shape [3], but its body returns a float32 tensor of 1 axes of "
            "shape [6] for it: return a tensor of the same dtype and shape",
        ),
    ],
)
def test_programs_that_cannot_be_followed_are_refused(program: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,), dynamic_axes={"x": {0: "n"}})
    assert str(caught.value) == f"{message} (at {__file__}:{program.__code__.co_firstlineno})"


@pytest.mark.parametrize("dynamic_axes", [None, {"x": {0: "n"}}])
@pytest.mark.parametrize("with_module", [False, True])
def test_dtypes_that_torch_would_not_compute_are_the_program_s_fault(
    with_module: bool, dynamic_axes: dict[str, dict[int, str]] | None
) -> None:
    doubles = torch.ones(3, 4, dtype=torch.float64)
    layer = nn.ModuleDict({"layer": nn.Linear(3, 4).double()})["layer"]

    def program(x: torch.Tensor) -> torch.Tensor:
        return layer(x) if with_module else torch.mm(x, doubles)

    with pytest.raises(RuntimeError) as torchs:
        program(X)
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=dynamic_axes)
    assert str(caught.value) == (
        f"torch records aten.{'linear' if with_module else 'mm'}.default at "
        f"{__file__}:{program.__code__.co_firstlineno + 1}, but does not compute it: {torchs.value}\n"
        "Calling the program with the same arguments fails without exporting too: correct it there first."
    )


def test_lowerings_that_fail_on_several_dtypes_that_torch_computes_are_at_fault() -> None:
    def failing(g: Any, self: Any, other: Any, alpha: int = 1) -> Any:
        raise TypeError("one dtype, please")

    add = torch.ops.aten.add.Tensor
    with pytest.raises(onnx_parity.LoweringError, match="failed with TypeError: one dtype, please"):
        onnx_parity.export(torch.add, (X, X.double()), custom_translation_table={add: failing})


@pytest.mark.parametrize(
    ("program", "added", "message"),
    [
        (
            torch.baddbmm,
            torch.ones(3, 2, 4),
            r"aten\.baddbmm\.default cannot add \[3, 2, 4\]: it does not broadcast to \[n, 3, 5\]",
        ),
        (
            torch.addbmm,
            torch.ones(3, 5, dtype=torch.float64),
            "takes tensors of one dtype, but got torch.float64, torch.float32 and torch.float32",
        ),
    ],
)
def test_what_cannot_be_added_to_products(program: Callable[..., Any], added: torch.Tensor, message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=message):
        onnx_parity.export(
            lambda x, y: program(added, x, y),
            (torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
            input_names=["x", "y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )


def test_places_that_are_not_broadcast() -> None:
    places = torch.zeros(3, 1, dtype=torch.int64)
    with pytest.raises(onnx_parity.CaptureError, match=r"RuntimeError: sizes n and 3 do not broadcast"):
        onnx_parity.export(lambda x: x.take_along_dim(places, 1), (X,), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(lambda x, y: torch.cat([x, y]), (X, torch.ones(2, 4)), dynamic_axes={"x": {0: "n"}})
    assert "RuntimeError: cat along axis 0: axis 1 is 3 in one tensor and 4 in another\nCall it with" in str(
        caught.value
    )


def test_a_decision_by_a_number_that_is_computed() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.take_along_dim(x[x[:, 0] > 0], x[x[:, 1] > 0].argsort(1), 1)

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    place = f"{__file__}:{inspect.getsourcelines(program)[1] + 1}"
    assert str(caught.value) == (
        f"the program branches on a number that it computed from values at {place}: u0 == u1\n"
        "The number depends on the input, so neither branch can be chosen at export. Branch on sizes of inputs, use "
        "torch.where or torch.cond, or state what always holds with torch._check."
    )


def test_sequences_are_not_padded_to_less_than_nothing() -> None:
    def program(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(packed, total_length=-1)[0]

    with pytest.raises(onnx_parity.CaptureError, match="Expected total_length to be at least the length"):
        onnx_parity.export(program, (torch.ones(4, 2, 3), torch.tensor([4, 2])))


def test_a_list_of_the_parts_of_a_tensor_whose_length_depends_on_values() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3)
        for row in [*(x[:, 0] > 0).nonzero()]:
            total = total + x[row[0]]
        return total

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == (
        f"the program loops in Python over a tensor whose length depends on values at {__file__}:"
        f"{inspect.getsourcelines(program)[1] + 2}\n"
        "How often the loop runs is not known at export. Loop over the tensor itself with `for`, compute all rows at "
        "once, or script the function with the loop. If these are the experts of a model of transformers that can be "
        "set, call model.set_experts_implementation('grouped_mm')."
    )
