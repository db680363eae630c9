"""Programs as users write them, whose graphs several rewrites change, are the same in onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-2, 3, 2 * 3 * 8).reshape(2, 3, 8)
HEADS = torch.linspace(-2, 2, 2 * 3 * 5 * 8).reshape(2, 3, 5, 8)
WEIGHT = nn.Parameter(torch.linspace(0.5, 1.5, 8))


def operators(program: onnx_parity.ONNXProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def norm_of_llama(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return WEIGHT.to(x.dtype) * wide.to(x.dtype)


def norm_of_gemma(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * (1 + WEIGHT)


def norm_of_a_matrix(x: torch.Tensor) -> torch.Tensor:
    return norm_of_gemma(x.flatten(0, 1))


def turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rotated(x: torch.Tensor, scale: float = 1.5) -> torch.Tensor:
    places = torch.arange(x.shape[2])[None, :, None]
    both = torch.cat((a := places * torch.tensor([1.0, 0.1, 0.01, 0.001]), a), -1)
    cos, sin = (both.cos() * scale).to(x.dtype).unsqueeze(1), (both.sin() * scale).to(x.dtype).unsqueeze(1)
    return x * cos + turned(x) * sin


def rotated_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rotated(x), rotated(x[:, :1])


@pytest.mark.parametrize(
    ("program", "x", "expected"),
    [
        (norm_of_llama, X, {"RMSNormalization": 1}),
        (norm_of_gemma, X, {"RMSNormalization": 1}),
        (norm_of_a_matrix, X, {"RMSNormalization": 1}),
        (rotated, HEADS, {"RotaryEmbedding": 1}),
        (rotated_twice, HEADS, {"RotaryEmbedding": 2}),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_of_language_models(
    program: Callable[[torch.Tensor], Any], x: torch.Tensor, expected: dict[str, int], dynamic: bool
) -> None:
    axes = {"x": {0: "batch", x.ndim - 2: "length"}} if dynamic else None
    capture = onnx_parity.capture_program(program, (x,), input_names=["x"], dynamic_axes=axes)
    exported = capture.lower(23)
    assert expected.items() <= operators(exported).items()
    for given in (x, -x, *((x[:1] * 1e-3, x[..., :2, :]) if dynamic else ())):
        assert_agrees(exported, program, given)
    assert not expected.keys() & operators(capture.lower(22)).keys()


@pytest.mark.parametrize(("program", "x"), [(norm_of_llama, X.half() * 300), (rotated, HEADS.half())])
def test_halves(program: Callable[[torch.Tensor], Any], x: torch.Tensor) -> None:
    """The squares of the first are too large for float16."""
    exported = onnx_parity.export(program, (x,), opset_version=24)
    assert {"RMSNormalization", "RotaryEmbedding"} & operators(exported).keys()
    torch.testing.assert_close(exported(x), program(x), rtol=2e-3, atol=4e-3)


def _broadcast(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    wide = row.expand(x.shape)
    return torch.where(wide > 0, x * wide, -wide) + (~(row.expand_as(x) > 0)).float()


def _summed_beside(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + row.expand(3, 4), row.expand(3, 4).sum(0)


def _padded_beside(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.logaddexp(x, row)[1:], F.pad(torch.logaddexp(row, x), (0, 1), mode="replicate")


@pytest.mark.parametrize(("program", "left"), [(_broadcast, 0), (_summed_beside, 1), (_padded_beside, 1)])
def test_an_expansion_beside_an_equal_one_that_stays(program: Any, left: int) -> None:
    x, row = torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor([[-1.0, 0.5, 2.0, -3.0]])
    exported = onnx_parity.export(program, (x, row), opset_version=21, input_names=["x", "row"])
    onnx.shape_inference.infer_shapes(exported.model_proto, strict_mode=True, data_prop=True)
    assert operators(exported)["Expand"] == left
    assert_agrees(exported, program, x, row)


def test_sizes_that_are_not_known_to_be_equal_are_expanded() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x.sum() + row.expand(y.shape[0], 4) * 2

    given = (torch.ones(3, 4), torch.ones(5, 4), torch.ones(1, 4))
    axes = {"x": {0: "rows"}, "y": {0: "others"}}
    exported = onnx_parity.export(program, given, input_names=["x", "y", "row"], dynamic_axes=axes)
    assert operators(exported)["Expand"] == 1
    assert_agrees(exported, program, torch.ones(1, 4), torch.ones(2, 4), torch.ones(1, 4))


def test_a_weight_is_repeated_for_a_fixed_batch() -> None:
    token = nn.Parameter(torch.linspace(-1, 1, 400).reshape(1, 1, 400))
    x = torch.linspace(0, 1, 2400).reshape(2, 3, 400)
    exported = onnx_parity.export(lambda x: torch.cat([token.expand(2, -1, -1), x], 1), (x,))
    assert operators(exported) == {"Concat": 1}
    assert_agrees(exported, lambda x: torch.cat([token.expand(2, -1, -1), x], 1), x)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("is_inside", [True, False])
def test_what_is_merged_in_a_branch_leaves_no_unused_nodes_there(is_inside: bool, opset: int) -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x.exp().reshape(6, 2, 2), (x * 2).reshape(6, 2, 2))

    def program(x: torch.Tensor) -> torch.Tensor:
        outer = x if is_inside else product(x)

        def apart() -> torch.Tensor:
            return (product(x) if is_inside else outer).reshape(2, 3, 2, 2) + 1

        found: torch.Tensor = torch.cond(x.sum() > 0, apart, lambda: x + 2)
        return found

    x = torch.linspace(-1, 2, 24).reshape(2, 3, 2, 2)
    exported = onnx_parity.export(program, (x,), opset_version=opset)
    assert_agrees(exported, program, x)
    assert_agrees(exported, program, -x)
    assert "Reshape" not in {node.op_type for node in exported.model.graph.all_nodes()}


def test_rewrites_know_the_defaults_of_nodes_that_a_user_s_lowering_adds() -> None:
    """A Transpose without `perm`, which reverses the axes, and a Constant without a tensor."""

    def tripled(g: Any, self: Any) -> Any:
        return g.op("Mul", g.op("Transpose", self), g.op("Constant", value_float_f=3.0))

    x = torch.arange(48.0).reshape(4, 3, 4)
    exported = onnx_parity.export(
        lambda x: torch.sinh(x.permute(2, 1, 0)) + 1, (x,), custom_translation_table={"aten::sinh": tripled}
    )
    assert operators(exported) == {"Constant": 1, "Mul": 1, "Add": 1}
    torch.testing.assert_close(exported(x), 3 * x + 1)


def test_random_nodes_are_not_merged() -> None:
    exported = onnx_parity.export(lambda x: torch.rand_like(x) - torch.rand_like(x), (torch.ones(50),))
    assert exported(torch.ones(50)).abs().max() > 0


@pytest.mark.parametrize("opset", [7, 18])
@pytest.mark.parametrize("folds", [False, True])
def test_products_of_transposed_matrices_with_a_vector(opset: int, folds: bool) -> None:
    """onnxruntime's optimiser is wrong where a Transpose comes before the matrices on the left."""

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.mT @ y, (x * 2).mT @ y, torch.cat([x.mT, x.mT]) @ y, x @ y.repeat(2)[:4], y @ x

    x, y = torch.linspace(-1, 2, 24).reshape(2, 3, 4), torch.tensor([1.0, -2.0, 3.0])
    # An output may have the name that a new value would be given.
    names = ["a", "b", "c", "d_transposed", "d"]
    exported = onnx_parity.export(program, (x, y), opset_version=opset, do_constant_folding=folds, output_names=names)
    assert_agrees(exported, program, x, y)
