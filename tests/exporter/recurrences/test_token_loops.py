"""Loops over tokens whose state is one of linear attention become operators over all tokens; others stay loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onnx_parity
from onnx_parity.exporter.torch_inside.higher_order_ops import scan

BATCH, HEADS, TOKENS, KEYS, VALUES = 2, 3, 7, 4, 5
#: A state of one head; those of a batch; and those of a batch and several heads.
ONE, BATCHED, BY_HEAD = (), (BATCH,), (BATCH, HEADS)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def vectors(*lead: int, normalized: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """A query, a key and a value of each token, which are the axis before the last."""
    keys = random(*lead, TOKENS, KEYS)
    return random(*lead, TOKENS, KEYS), F.normalize(keys, dim=-1) if normalized else keys, random(*lead, TOKENS, VALUES)


def linear(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    results = []
    for token in range(query.shape[-2]):
        state = state + key[..., token, :, None] @ value[..., token, None, :]
        results.append((query[..., token, None, :] @ state).squeeze(-2))
    return torch.stack(results, -2), state


def lightning(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    """Slices of one token, a decay that is a number, and results that are joined along the tokens."""
    results = []
    for token in range(query.shape[2]):
        here = slice(token, token + 1)
        state = 0.9 * state + key[:, :, here].transpose(-1, -2) @ value[:, :, here]
        results.append(query[:, :, here] @ state)
    return torch.cat(results, dim=-2)


def gated(query: Tensor, key: Tensor, value: Tensor, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """A decay that is computed before the loop, and other work on what is read."""
    decay, results = torch.sigmoid(gates), []
    for q, k, v, d in zip(query.unbind(1), key.unbind(1), value.unbind(1), decay.unbind(1), strict=True):
        state = d[:, None, None] * state + v[:, :, None] * k[:, None, :]
        results.append(F.silu((state * q[:, None, :]).sum(-1)) + v)
    return torch.stack(results, 1), state


def gated_by_element(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, state: Tensor) -> Any:
    def step(state: Tensor, token: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, d = token
        state = state * d.exp()[..., None] + k[..., None] * v[..., None, :]
        return state, (state * q[..., None]).sum(-2)

    return scan(step, state, tuple(each.movedim(-2, 0) for each in (query, key, value, decay)))


def delta(query: Tensor, key: Tensor, value: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The rate multiplies the key, and the state has values before keys."""
    results = torch.zeros_like(value)
    for token in range(query.shape[-2]):
        k, v = key[..., token, None, :], value[..., token, :, None]
        state = state + (v - (state * k).sum(-1, keepdim=True)) * (k * rate[..., token, None, None])
        results[..., token, :] = (state @ query[..., token, :, None])[..., 0]
    return results, state


def halved(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    """Factors that are numbers, and no rate."""
    results = []
    for token in range(query.shape[0]):
        state = state / 2 * 1.5
        row = value[token] - (state * key[token, :, None]).sum(0)
        state = state + key[token, :, None] * row[None, :]
        results.append((state * query[token, :, None]).sum(0))
    return torch.stack(results)


def gated_delta(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    results = torch.zeros_like(v)
    for token in range(q.shape[2]):
        state = state * decay[:, :, token].exp()[..., None]
        seen = (state * k[:, :, token].unsqueeze(-1)).sum(dim=-2)
        new = (v[:, :, token] - seen) * rate[:, :, token].unsqueeze(-1)
        state = state + k[:, :, token].unsqueeze(-1) * new[:, :, None, :]
        results[:, :, token, :] = (state * q[:, :, token].unsqueeze(-1)).sum(dim=-2)
    return results, state


def state(*lead: int) -> Tensor:
    return random(*lead, KEYS, VALUES)


def axes_of(inputs: tuple[Tensor, ...]) -> tuple[dict[int, str], ...]:
    return tuple({axis: "tokens" for axis, size in enumerate(each.shape) if size == TOKENS} for each in inputs)


RECOGNIZED: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [
    (linear, (*vectors(*ONE), state())),
    (linear, (*vectors(*BATCHED), state(*BATCHED))),
    (lightning, (*vectors(*BY_HEAD), state(*BY_HEAD))),
    (gated, (*vectors(*BATCHED), random(BATCH, TOKENS), state(*BATCHED).mT.contiguous())),
    (gated_by_element, (*vectors(*BY_HEAD), -random(*BY_HEAD, TOKENS, KEYS).abs(), state(*BY_HEAD))),
    (delta, (*vectors(*ONE, normalized=True), random(TOKENS).sigmoid(), state().mT.contiguous())),
    (halved, (*vectors(normalized=True), state())),
    (
        gated_delta,
        (
            *vectors(*BY_HEAD, normalized=True),
            -random(*BY_HEAD, TOKENS, KEYS).abs(),
            random(*BY_HEAD, TOKENS).sigmoid(),
            state(*BY_HEAD),
        ),
    ),
]


@pytest.mark.parametrize("opset", [13, 27])
@pytest.mark.parametrize(("program", "inputs"), RECOGNIZED)
def test_a_loop_over_tokens_is_linear_attention(
    program: Callable[..., Any], inputs: tuple[Tensor, ...], opset: int
) -> None:
    exported = onnx_parity.export(program, inputs, dynamic_shapes=axes_of(inputs), opset_version=opset, verify=True)
    kinds = [node.op_type for node in exported.model.graph]
    assert ("LinearAttention" in kinds) is (opset == 27)
    assert kinds.count("Loop") == (opset != 27)
    assert "Scan" not in kinds


def read_before(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    results = []
    for token in range(query.shape[0]):
        results.append((state * query[token, :, None]).sum(0))
        state = state + key[token, :, None] * value[token, None, :]
    return torch.stack(results)


def not_linear(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    results = []
    for token in range(query.shape[0]):
        state = torch.tanh(state) + key[token, :, None] * value[token, None, :]
        results.append((state * query[token, :, None]).sum(0))
    return torch.stack(results)


def negative_factor(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    """A factor that may be negative has no logarithm."""
    results = []
    for token in range(query.shape[0]):
        state = state * query[token, :, None] + key[token, :, None] * value[token, None, :]
        results.append((state * query[token, :, None]).sum(0))
    return torch.stack(results)


def corrected_by_another_key(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    results = []
    for token in range(query.shape[0]):
        row = value[token] - (state * query[token, :, None]).sum(0)
        state = state + key[token, :, None] * row
        results.append((state * query[token, :, None]).sum(0))
    return torch.stack(results)


def from_the_end(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    """Other tokens than those with the number of the iteration."""
    results = []
    for token in range(query.shape[0]):
        state = state + key[query.shape[0] - 1 - token, :, None] * value[token, None, :]
        results.append((state * query[token, :, None]).sum(0))
    return torch.stack(results)


@pytest.mark.parametrize("program", [read_before, not_linear, negative_factor, corrected_by_another_key, from_the_end])
def test_another_loop_stays_one(program: Callable[..., Tensor]) -> None:
    inputs = (*vectors(), state())
    exported = onnx_parity.export(program, inputs, dynamic_shapes=axes_of(inputs), verify=True, opset_version=18)
    assert len(exported.model.graph) < 10
    assert "Loop" in [node.op_type for node in exported.model.graph]
