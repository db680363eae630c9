"""Keys and values whose heads several heads of a query share."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onnx_parity


def _repeated(x: Tensor, times: int) -> Tensor:
    """As transformers' `repeat_kv`."""
    batch, heads, length, size = x.shape
    return x[:, :, None].expand(batch, heads, times, length, size).reshape(batch, heads * times, length, size)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, _repeated(key, 3), _repeated(value, 3), attn_mask=mask)


@pytest.mark.parametrize(("opset", "products"), [(12, {"MatMul": 2}), (23, {"Attention": 1})])
def test_heads_that_are_shared_are_not_copied(opset: int, products: dict[str, int]) -> None:
    inputs = {"query": torch.randn(2, 6, 5, 8), "key": torch.randn(2, 2, 7, 8), "value": torch.randn(2, 2, 7, 8)}
    batch = {0: "batch"}
    program = onnx_parity.export(
        _attend,
        kwargs={**inputs, "mask": torch.rand(2, 1, 5, 7) > 0.3},
        opset_version=opset,
        dynamic_shapes={
            "query": {**batch, 2: "queries"},
            "key": {**batch, 2: "keys"},
            "value": {**batch, 2: "keys"},
            "mask": {**batch, 2: "queries", 3: "keys"},
        },
        verify=True,
    )
    counts = Counter(node.op_type for node in program.model.graph)
    assert {name: counts[name] for name in ("MatMul", "Attention") if counts[name]} == products
    copied = [node for node in program.model.graph if node.op_type in ("Gather", "Expand")]
    assert not [node for node in copied if len(node.outputs[0].shape or ()) > 3]


def test_other_repetitions_are_copied() -> None:
    def attend(query: Tensor, key: Tensor) -> Tensor:
        key = key.repeat(1, 3, 1, 1)  # The heads one after the other, three times.
        return F.scaled_dot_product_attention(query, key, key)

    program = onnx_parity.export(attend, (torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8)), verify=True)
    assert {"Gather", "Tile", "Expand", "Concat"} & {node.op_type for node in program.model.graph}
