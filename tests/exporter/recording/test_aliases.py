"""What shares memory in PyTorch: a write to a tensor is seen in its views, and not in copies of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in

X = torch.linspace(-1, 2, 6).reshape(2, 3)

#: Functions that return their argument, a view of it or a copy, as torch decides. Some decompositions decide otherwise.
FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "nothing is dropped": lambda v: F.dropout(v, 0.5, False),
    "dropped with probability 0": lambda v: F.dropout(v, 0.0, True),
    "dropout as a module": nn.Dropout().eval(),
    "dropout of channels": lambda v: F.dropout2d(v[None], 0.5, False),
    "alpha dropout": lambda v: F.alpha_dropout(v, 0.5, False),
    "native dropout": lambda v: torch.native_dropout(v, 0.5, False)[0],
    "identity": nn.Identity(),
    "contiguous": lambda v: v.contiguous(),
    "contiguous after a transposition": lambda v: v.t().contiguous(),
    "to its own dtype": lambda v: v.to(torch.float32),
    "float": lambda v: v.float(),
    "to another": lambda v: v.to(v),
    "type": lambda v: v.type(torch.float32),
    "type_as": lambda v: v.type_as(v),
    "cpu": lambda v: v.cpu(),
    "as_tensor": torch.as_tensor,
    "detach": lambda v: v.detach(),
    "real": torch.real,
    "conj": lambda v: v.conj(),
    "resolve_conj": lambda v: v.resolve_conj(),
    "positive": lambda v: +v,
    "reshape": lambda v: v.reshape(3, 2),
    "reshape of a transposed matrix": lambda v: v.t().reshape(2, 3),
    "flatten": lambda v: v.flatten(1),
    "ravel": lambda v: v.ravel(),
    "view_as": lambda v: v.view_as(v),
    "expand": lambda v: v.expand(1, 2, 3),
    "broadcast_tensors": lambda v: torch.broadcast_tensors(v, torch.zeros(3))[0],
    "atleast_2d": torch.atleast_2d,
    "squeeze": lambda v: v.squeeze(0),
    "narrow": lambda v: v.narrow(0, 0, 2),
    "slice": lambda v: v[:],
    "split": lambda v: v.split(2)[0],
    "chunk": lambda v: v.chunk(1)[0],
    "unsafe_chunk": lambda v: v.unsafe_chunk(2, 1)[0],
    "unsafe_split": lambda v: v.unsafe_split(2, 1)[1],
    "unsafe_split_with_sizes": lambda v: v.unsafe_split_with_sizes([1, 2], 1)[1],
    "select": lambda v: v[1],
    "unbind": lambda v: v.unbind(0)[0],
    "diagonal": lambda v: v.diagonal(),
    "movedim": lambda v: v.movedim(0, 0),
    "sum_to_size": lambda v: v.sum_to_size(2, 3),
    "einsum of a copy": lambda v: torch.einsum("ij->ij", v),
    "einsum of a transposition": lambda v: torch.einsum("ij->ji", v),
    "einsum of a diagonal": lambda v: torch.einsum("ii->i", v[:, :2]),
    "meshgrid": lambda v: torch.meshgrid(v[0], indexing="ij")[0],
    "pad by nothing": lambda v: F.pad(v, (0, 0)),
    "interpolate by 1": lambda v: F.interpolate(v[None, None], scale_factor=1.0)[0, 0],
    "adaptive pooling to the same size": lambda v: F.adaptive_avg_pool1d(v, 3),
    "pixel_shuffle by 1": lambda v: F.pixel_shuffle(v[None], 1),
    "repeat once": lambda v: v.repeat(1, 1),
    "roll by 0": lambda v: v.roll(0, 0),
    "flip of no axis": lambda v: v.flip([]),
    "rot90 by 0": lambda v: v.rot90(0),
    "cat of one": lambda v: torch.cat([v]),
    "block_diag of one": torch.block_diag,
    "tril of everything": lambda v: v.tril(5),
    "index_select of all": lambda v: v.index_select(0, torch.arange(2)),
    "masked by everything": lambda v: v.where(v == v, v),
    "matrix_power of 1": lambda v: torch.matrix_power(v[:, :2], 1),
    "view in its own dtype": lambda v: v.view(torch.float32),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_shares_memory(name: str) -> None:
    function = FUNCTIONS[name]

    def writes_before(x: Tensor) -> Tensor:
        v = x * 2
        result: Tensor = function(v)
        v.add_(1)
        return result

    assert_agrees(onnx_parity.export(writes_before, (X,)), writes_before, X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_shares_memory_is_written_to_through_the_result(name: str) -> None:
    function = FUNCTIONS[name]

    def writes_after(x: Tensor) -> Tensor:
        v = x * 2
        function(v).add_(1)
        return v

    assert_agrees(onnx_parity.export(writes_after, (X,)), writes_after, X)


def _equations(count: int) -> list[str]:
    """Equations of two operands that share an axis that is summed over, and perhaps others."""
    drawn = random.Random(0)
    found = []
    for _ in range(count):
        both, left, right = (
            drawn.sample(labels, drawn.randint(0, most)) for labels, most in (("bc", 2), ("ij", 2), ("k", 1))
        )
        terms = [*both, *left, "s"], [*both, *right, "s"]
        out = [*both, *left, *right]
        for labels in (*terms, out):
            drawn.shuffle(labels)
        operands = ["".join(labels) for labels in terms]
        drawn.shuffle(operands)
        found.append(f"{','.join(operands)}->{''.join(out)}")
    return found


@pytest.mark.parametrize(
    "sizes", one_in(4, [{}, {"b": 1}, {"i": 1, "k": 1}, {"s": 1}]), ids=["long", "batch", "rows", "sum"]
)
def test_an_einsum_lies_in_memory_as_in_torch(sizes: dict[str, int]) -> None:
    """What is a view of it depends on that."""
    sizes = {**dict(zip("bcijks", (2, 3, 4, 5, 6, 7), strict=True)), **sizes}
    unlike = []
    for equation in _equations(60):
        x, y = (torch.rand([sizes[label] for label in term]) for term in equation.partition("->")[0].split(","))
        strides: list[Any] = []

        def program(x: Tensor, y: Tensor, equation: str = equation, strides: list[Any] = strides) -> Tensor:
            result = torch.einsum(equation, x, y)
            strides.append([stride for size, stride in zip(result.shape, result.stride(), strict=True) if size > 1])
            return result

        program(x, y)
        onnx_parity.capture_program(program, (x, y))
        if strides[0] != strides[1]:  # It is recorded again for inputs that lie otherwise.
            unlike.append((equation, strides))
    assert not unlike


def test_a_write_to_an_einsum_is_seen_in_views_of_it_alone() -> None:
    def writes(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        result = torch.einsum("bij,bjk->bki", x, y)
        outer, inner = result.flatten(0, 1), result.mT.flatten()
        result.mul_(2)
        return outer, inner

    factors = torch.rand(2, 3, 4), torch.rand(2, 4, 5)
    assert_agrees(onnx_parity.export(writes, factors), writes, *factors)


def resized_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(-1).resize_(x.shape[0]).add_(1)
    return y


def resized_base(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    flat = y.view(-1)
    y.resize_(x.shape[0], 2).add_(1)
    return y, flat


@pytest.mark.parametrize("f", [resized_view, resized_base])
def test_tensors_that_share_memory_get_no_dynamic_sizes_in_place(f: Any) -> None:
    x = torch.rand(4, 3)
    program = onnx_parity.export(f, (x,))
    torch.testing.assert_close(program(x), f(x))
    with pytest.raises(onnx_parity.CaptureError, match="another tensor has its memory too: take a slice"):
        onnx_parity.export(f, (x,), dynamic_shapes=({0: "rows"},))


@pytest.mark.parametrize("axes", [None, ({0: "rows"},)])
def test_tensors_that_are_not_contiguous_get_no_more_elements(axes: Any) -> None:
    x = torch.rand(4, 3)
    with pytest.raises(onnx_parity.CaptureError, match="other sizes to a tensor that is not contiguous"):
        onnx_parity.export(lambda x: (x.t() * 1).resize_(20)[:12], (x,), dynamic_shapes=axes)
    with pytest.raises(onnx_parity.CaptureError, match="other sizes to a tensor that is not contiguous"):
        onnx_parity.export(lambda x: (x.t() * 1).resize_as_(x[0]), (x,), dynamic_shapes=axes)


@pytest.mark.parametrize("axes", [None, ({0: "rows"}, None)])
def test_inputs_get_no_other_sizes_by_out(axes: Any) -> None:
    x = torch.rand(4, 3)
    with pytest.raises(onnx_parity.CaptureError, match="other sizes to an input or a buffer in place, as out= does"):
        onnx_parity.export(lambda x, out: torch.add(x, 1, out=out) * 2, (x, torch.zeros(2, 3)), dynamic_shapes=axes)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_operator_of_products_gives_out_its_sizes() -> None:
    def products(x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, x.T, out=torch.zeros(7, 9)) * 2

    program = onnx_parity.export(products, (torch.rand(4, 3),), dynamic_shapes=({0: "rows"},))
    for rows in (0, 1, 5):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(program(x), products(x))
