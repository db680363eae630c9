"""`onnx_parity.ops.attention` and `rotary_embedding`: they agree with onnx.reference, at every opset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

import onnx_parity
from onnx_parity.exporter.ops import attention, rotary_embedding


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def reference(op_type: str, inputs: list[torch.Tensor | None], outputs: int, **attributes: Any) -> list[torch.Tensor]:
    names = ["" if each is None else f"input_{number}" for number, each in enumerate(inputs)]
    results = [f"output_{number}" for number in range(outputs)]
    node = onnx.helper.make_node(op_type, names, results, **attributes)
    values = [onnx.helper.make_tensor_value_info(name, 0, None) for name in (*filter(None, names), *results)]
    graph = onnx.helper.make_graph([node], "one", values[:-outputs], values[-outputs:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    feeds = {name: each.numpy() for name, each in zip(names, inputs, strict=True) if each is not None}
    return [torch.from_numpy(np.asarray(each)) for each in ReferenceEvaluator(model).run(None, feeds)]


QKV = (random(2, 4, 3, 6), random(2, 4, 5, 6), random(2, 4, 5, 8))
GROUPED = (random(2, 4, 3, 6), random(2, 2, 5, 6), random(2, 2, 5, 8))
FLAT = (random(2, 3, 24), random(2, 5, 12), random(2, 5, 16))
PAST = (random(2, 4, 2, 6), random(2, 4, 2, 8))
MASK = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])


@pytest.mark.parametrize("opset", [9, 14, 23])
@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (QKV, {}),
        (QKV, {"is_causal": True, "scale": 0.3}),
        (GROUPED, {}),
        (FLAT, {"q_num_heads": 4, "kv_num_heads": 2}),
        ((*QKV, MASK), {}),
        ((*QKV, random(2, 1, 3, 5)), {"softcap": 2.0, "qk_matmul_output_mode": 1}),
        ((*QKV, MASK), {"qk_matmul_output_mode": 3, "softmax_precision": 11}),
        ((*GROUPED, random(3, 5)), {"is_causal": True, "qk_matmul_output_mode": 2}),
        ((*QKV, None, *PAST), {"is_causal": True}),
        ((*QKV, random(3, 7), *PAST), {}),
    ],
)
def test_attention_is_onnx_s(inputs: tuple[Any, ...], options: dict[str, Any], opset: int) -> None:
    def program(*inputs: Any) -> Any:
        return attention(*inputs, **options)

    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in options.items()}
    expected = reference("Attention", list(inputs), 4, **attributes)
    torch.testing.assert_close([*program(*inputs)], expected, rtol=1e-5, atol=1e-5)
    exported = onnx_parity.export(program, inputs, opset_version=opset)
    torch.testing.assert_close([*exported(*inputs)], expected, rtol=1e-4, atol=1e-5)


def test_plain_attention_is_one_operator_where_there_is_one() -> None:
    def program(*inputs: Any) -> Any:
        return attention(*inputs, is_causal=True)[0]

    exported = onnx_parity.export(program, QKV, opset_version=23)
    assert [node.op_type for node in exported.model.graph] == ["Attention"]
    axes: dict[str, dict[int, str]] = {f"input_{number}": {0: "batch"} for number in range(3)}
    onnx_parity.export(program, QKV, opset_version=18, dynamic_axes=axes, verify=True)


CACHES = (random(9, 3), random(9, 3))
POSITIONS = torch.tensor([[4, 0, 8], [1, 1, 2]])


@pytest.mark.parametrize("opset", [9, 18, 23])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ((random(2, 4, 3, 6), *CACHES, POSITIONS), {}),
        ((random(2, 4, 3, 10), *CACHES, POSITIONS), {"rotary_embedding_dim": 6}),
        ((random(2, 3, 24), *CACHES, POSITIONS), {"num_heads": 4}),
        ((random(2, 3, 40), *CACHES, POSITIONS), {"num_heads": 4, "rotary_embedding_dim": 6}),
        ((random(2, 4, 3, 6), random(2, 3, 3), random(2, 3, 3)), {}),
    ],
)
def test_rotary_embedding_is_onnx_s(
    inputs: tuple[Any, ...], options: dict[str, Any], interleaved: bool, opset: int
) -> None:
    def program(*inputs: torch.Tensor) -> torch.Tensor:
        return rotary_embedding(*inputs, interleaved=interleaved, **options)

    (expected,) = reference("RotaryEmbedding", list(inputs), 1, interleaved=int(interleaved), **options)
    torch.testing.assert_close(program(*inputs), expected)
    exported = onnx_parity.export(program, inputs, opset_version=opset)
    torch.testing.assert_close(exported(*inputs), expected)
    assert ([node.op_type for node in exported.model.graph] == ["RotaryEmbedding"]) is (opset == 23)


@pytest.mark.parametrize("opset", [9, 23])
def test_dynamic_sizes(opset: int) -> None:
    def program(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rotary_embedding(x, *CACHES, positions, num_heads=4)

    axes = {"x": {0: "batch", 1: "length"}, "positions": {0: "batch", 1: "length"}}
    onnx_parity.export(program, (random(2, 3, 24), POSITIONS), opset_version=opset, dynamic_axes=axes, verify=True)


def test_both_have_gradients() -> None:
    x = random(2, 4, 3, 6).requires_grad_()
    for result in (rotary_embedding(x, *CACHES, POSITIONS), attention(x, *QKV[1:], MASK)[0]):
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert bool(gradient.isfinite().all())


def test_a_value_of_it_may_be_looked_at() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * float(rotary_embedding(x, *CACHES, POSITIONS).sum())

    x = random(2, 4, 3, 6)
    exported = onnx_parity.export(program, x, strict=True)
    for each in (x, random(2, 4, 3, 6)):
        torch.testing.assert_close(exported(each), program(each))


def test_torch_s_own_attention() -> None:
    from torch.onnx.ops import attention as torchs

    inputs = (*QKV, MASK)
    for opset in (13, 23):
        for given in (QKV, inputs):
            exported = onnx_parity.export(torchs, given, opset_version=opset)
            torch.testing.assert_close([*exported(*given)], [*torchs(*given)])
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(lambda *inputs: torchs(*inputs, softcap=2.0), QKV)
    assert str(caught.value).startswith(
        "torch.onnx.ops.attention with softcap or qk_matmul_output_mode does not compute what ONNX's Attention does: "
        f"call onnx_parity.ops.attention (at {__file__}:"
    )


def test_torch_s_own_rotary_embedding() -> None:
    from torch.onnx.ops import rotary_embedding as torchs

    inputs = (random(2, 4, 3, 6), *CACHES, POSITIONS)
    for opset in (18, 23):
        exported = onnx_parity.export(torchs, inputs, opset_version=opset)
        torch.testing.assert_close(exported(*inputs), torchs(*inputs))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: attention(QKV[0], *FLAT[1:]),
            "attention takes Q, K and V of 3 axes, or of 4, but got 4, 3, 3: reshape them",
        ),
        (
            lambda: attention(*FLAT),
            "attention needs the numbers of heads if Q, K and V have 3 axes: give q_num_heads and kv_num_heads",
        ),
        (
            lambda: attention(*FLAT, q_num_heads=4, kv_num_heads=3),
            "attention got 4 heads of Q and 3 of K: the first must be a multiple of the second",
        ),
        (
            lambda: attention(*QKV, past_key=PAST[0]),
            "attention got one of past_key and past_value: give both or neither",
        ),
        (lambda: attention(*QKV, qk_matmul_output_mode=4), "qk_matmul_output_mode is 4: give 0, 1, 2 or 3"),
        (
            lambda: attention(*QKV, softmax_precision=7),
            "softmax_precision is 7: give the number of a floating type of ONNX, 1 for float, 10 for float16, "
            "11 for double, 16 for bfloat16",
        ),
        (lambda: rotary_embedding(MASK, *CACHES), "rotary_embedding takes X of 3 or 4 axes, but got 2: reshape it"),
        (
            lambda: rotary_embedding(FLAT[0], *CACHES),
            "rotary_embedding needs the number of heads if X has 3 axes: give num_heads",
        ),
        (
            lambda: rotary_embedding(QKV[0], *CACHES),
            "rotary_embedding takes caches of 3 axes without position_ids, but got 2 and 2: reshape them",
        ),
    ],
)
def test_wrong_calls(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        call()
    assert str(caught.value) == message
