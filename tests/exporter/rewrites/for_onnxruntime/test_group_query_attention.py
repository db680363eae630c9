"""Attention over a cache in onnxruntime: what is computed for which sizes and masks, and what stays as it is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes
from onnx_parity.exporter.rewrites.for_onnxruntime.lengths import shares_buffers

_FEATURES, _SIZE = 32, 8


@dataclass(frozen=True)
class _Kind:
    heads: int = 4
    shared: int = 2
    #: How many tokens before it a token attends to; 0 for all.
    window: int = 0
    #: Whether scores are computed by the program itself, and what they are bounded by then.
    softcap: float = 0.0
    is_causal: bool = True


class _Layer(nn.Module):
    """Attention of a language model: new tokens, a mask for all tokens, and a cache."""

    def __init__(self, kind: _Kind) -> None:
        super().__init__()
        self.kind = kind
        sizes = [_SIZE * count for count in (kind.heads, kind.shared, kind.shared)]
        self.projections = nn.ModuleList([nn.Linear(_FEATURES, size, bias=False) for size in sizes])

    def forward(self, x: Tensor, mask: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kind, past = self.kind, key.shape[2]
        query, new_key, new_value = (layer(x).unflatten(2, (-1, _SIZE)).transpose(1, 2) for layer in self.projections)
        key, value = torch.cat([key, new_key], 2), torch.cat([value, new_value], 2)
        rows, columns = (torch.arange(past, key.shape[2])[:, None], torch.arange(key.shape[2]))
        attends = columns <= rows if kind.is_causal else columns <= rows + 1
        if kind.window:
            attends = attends & (columns > rows - kind.window)
        attends = attends & mask.bool()[:, None, None]
        result = self._bounded(query, key, value, attends) if kind.softcap else _whole(query, key, value, attends)
        return result.transpose(1, 2).flatten(2), key, value

    def _bounded(self, query: Tensor, key: Tensor, value: Tensor, attends: Tensor) -> Tensor:
        times = self.kind.heads // self.kind.shared
        key, value = (each.repeat_interleave(times, 1) for each in (key, value))
        scores = query @ key.transpose(2, 3) * 0.3
        scores = torch.tanh(scores / self.kind.softcap) * self.kind.softcap
        scores = scores + torch.where(attends, 0.0, torch.finfo(torch.float32).min)
        return scores.softmax(-1) @ value


def _whole(query: Tensor, key: Tensor, value: Tensor, attends: Tensor) -> Tensor:
    grouped = query.shape[1] != key.shape[1]
    return nn.functional.scaled_dot_product_attention(query, key, value, attends, scale=0.3, enable_gqa=grouped)


def _inputs(kind: _Kind, batch: int, new: int, past: int) -> list[Tensor]:
    cache = [torch.randn(batch, kind.shared, past, _SIZE) for _ in range(2)]
    return [torch.randn(batch, new, _FEATURES), torch.ones(batch, past + new, dtype=torch.int64), *cache]


def _exported(
    kind: _Kind, opset: int, total: str = "past + new", dtype: torch.dtype = torch.float32, verify: bool = False
) -> tuple[_Layer, onnx_parity.ONNXProgram]:
    torch.manual_seed(0)
    layer = _Layer(kind).to(dtype)
    program = onnx_parity.export(
        layer,
        tuple(x.to(dtype) if x.is_floating_point() else x for x in _inputs(kind, 2, 3, 4)),
        input_names=["x", "mask", "key", "value"],
        dynamic_axes={
            "x": {0: "batch", 1: "new"}, "mask": {0: "batch", 1: total}, "key": {0: "batch", 2: "past"},
            "value": {0: "batch", 2: "past"},
        },
        opset_version=opset,
        target="onnxruntime",
        verify=verify,
    )  # fmt: skip
    return layer, program


def _session(program: onnx_parity.ONNXProgram) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])


def _operators(program: onnx_parity.ONNXProgram) -> list[str]:
    return [node.op_type for node in all_nodes(program.model.graph)]


def _masks(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Without padding, with padding at the left, at the right and within, and with a sample of padding alone."""
    ones = inputs[1]
    padded = []
    for places in (slice(0, 2), slice(-1, None), slice(1, 2), slice(None)):
        mask = ones.clone()
        mask[-1:, places] = 0
        padded.append(mask)
    return [ones, *padded]


_KINDS = {
    "shared heads": _Kind(),
    "a head each": _Kind(heads=2),
    "a window": _Kind(window=2),
    "bounded scores": _Kind(softcap=1.5, window=3),
}
#: Batch, new tokens, and tokens before.
_SIZES = [*itertools.product((1, 3), (1, 5), (0, 4)), (0, 1, 4), (1, 0, 4), (2, 7, 11)]


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", _KINDS.values(), ids=_KINDS)
def test_equal_to_the_program_for_all_sizes_and_masks(kind: _Kind, opset: int) -> None:
    layer, program = _exported(kind, opset)
    assert _operators(program).count("GroupQueryAttention") == 1
    session = _session(program)
    # From opset 23 on, the other branch has ONNX's Attention, of which onnxruntime refuses empty queries.
    for sizes in [sizes for sizes in _SIZES if opset < 23 or 0 not in sizes[:2]]:
        given = _inputs(kind, *sizes)
        for mask in _masks(given):
            inputs = [given[0], mask, *given[2:]]
            found = session.run(None, {name: x.numpy() for name, x in zip(program.input_names, inputs, strict=True)})
            for one, other in zip(found, layer(*inputs), strict=True):
                torch.testing.assert_close(torch.from_numpy(one), other.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", _KINDS.values(), ids=_KINDS)
def test_new_tokens_are_written_into_a_longer_buffer(kind: _Kind, opset: int) -> None:
    layer, program = _exported(kind, opset)
    assert shares_buffers(program.model.graph.inputs[2:])
    session = _session(program)
    for batch, new, past in ((1, 1, 4), (3, 1, 4), (1, 5, 0), (3, 5, 0), (1, 5, 4), (3, 5, 4)):
        given = _inputs(kind, batch, new, past)
        for mask in _masks(given):
            inputs = [given[0], mask, *given[2:]]
            result, *caches = _in_buffers(session, program, inputs, past + new + 6)
            expected, *longer = layer(*inputs)
            torch.testing.assert_close(result, expected.detach(), rtol=1e-4, atol=1e-5)
            for buffer, cache in zip(caches, longer, strict=True):
                torch.testing.assert_close(buffer[:, :, : past + new], cache.detach(), rtol=1e-4, atol=1e-5)
                assert (buffer[:, :, past + new :] == 7).all()


def _in_buffers(
    session: onnxruntime.InferenceSession, program: onnx_parity.ONNXProgram, inputs: Sequence[Tensor], room: int
) -> list[Tensor]:
    binding: Any = session.io_binding()
    for name, x in zip(program.input_names[:2], inputs, strict=False):
        binding.bind_cpu_input(name, x.numpy())
    binding.bind_output(program.output_names[0])
    buffers = []
    for place, cache in enumerate(inputs[2:]):
        whole = torch.full((*cache.shape[:2], room, _SIZE), 7.0)
        whole[:, :, : cache.shape[2]] = cache
        buffers.append(onnxruntime.OrtValue.ortvalue_from_numpy(whole.numpy()))
        binding.bind_ortvalue_input(program.input_names[2 + place], buffers[-1])
        binding.bind_ortvalue_output(program.output_names[1 + place], buffers[-1])
    session.run_with_iobinding(binding)
    result = torch.from_numpy(binding.get_outputs()[0].numpy().copy())
    return [result, *(torch.from_numpy(each.numpy().copy()) for each in buffers)]


def test_sizes_of_caches_are_read_where_no_other_input_has_them() -> None:
    _, program = _exported(_Kind(), 18, total="everything")
    assert "GroupQueryAttention" in _operators(program)
    assert not shares_buffers(program.model.graph.inputs[2:])


@pytest.mark.parametrize("opset", [18, 23])
def test_halves_are_verified(opset: int) -> None:
    _, program = _exported(_Kind(), opset, dtype=torch.float16, verify=True)
    assert "GroupQueryAttention" in _operators(program)


def test_attention_to_later_tokens_stays() -> None:
    _, program = _exported(_Kind(is_causal=False), 18)
    assert "GroupQueryAttention" not in _operators(program)
