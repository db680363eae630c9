"""Attention: scaled dot products with every mask, multi-head attention, transformer layers."""

from __future__ import annotations

import math

import torch
import torch.nn.attention
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import FLOATS, Keywords, bools, floats, given, op

#: Why some cases do not run with a NaN.
_NAN_BY_KERNEL = "torch's kernels of attention differ about NaN"

_QUERY = floats(2, 4, 5, 8)
#: A query, keys and values.
_EXAMPLE = _QUERY, floats(2, 4, 6, 8), floats(2, 4, 6, 7)
_ATTEND = F.scaled_dot_product_attention
_LENGTHS = {"x0": {0: "batch", 2: "queries"}, "x1": {0: "batch", 2: "keys"}, "x2": {0: "batch", 2: "keys"}}
_NO = -math.inf
_TWO_HEADS: Keywords = {"embed_dim": 8, "num_heads": 2}
_LAYER: Keywords = {"d_model": 8, "nhead": 2, "dim_feedforward": 16}


def attended_by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """What a query with NaN gives is NaN. torch's fast kernel gives 0 for few keys, on some processors only."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        result: torch.Tensor = _ATTEND(query, key, value)
        return result


def _with_repeated_mask(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, masked: list[list[bool]]
) -> torch.Tensor:
    """Attention with a known mask, which the program repeats for each sample of a batch of any size."""
    mask = torch.tensor(masked)[None, None].expand(query.shape[0], -1, -1, -1)
    attended: torch.Tensor = _ATTEND(query, key, value, attn_mask=mask)
    return attended


def _with_idle_masks(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Attention with masks that exclude nothing."""
    zeros, ones = query.new_zeros(5, 6), query.new_ones(2, 1, 5, 6, dtype=torch.bool)
    return _ATTEND(query, key, value, attn_mask=zeros), _ATTEND(query, key, value, attn_mask=ones)


class _Masked(nn.Module):
    """Multi-head attention whose masks the program makes, of dynamic sizes."""

    def __init__(self, masks: str, need_weights: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.padded, self.causal = "padding" in masks, "causal" in masks
        self.need_weights = need_weights

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        first = x if self.attention.batch_first else x.transpose(0, 1)
        batch, steps = first.shape[:2]
        padding = torch.arange(steps).expand(batch, -1) >= 2 if self.padded else None
        causal = torch.ones(steps, steps, dtype=torch.bool).triu(1) if self.causal else None
        attended: tuple[torch.Tensor, torch.Tensor | None] = self.attention(
            x, x, x, key_padding_mask=padding, need_weights=self.need_weights, attn_mask=causal
        )
        return attended


class _AttendsTo(nn.Module):
    """Multi-head attention whose masks are inputs."""

    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(
        self, x: torch.Tensor, padding: torch.Tensor, masked: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        attended: tuple[torch.Tensor, torch.Tensor | None] = self.attention(
            x, x, x, key_padding_mask=padding, need_weights=self.need_weights, attn_mask=masked
        )
        return attended


class _Biased(nn.Module):
    """Attention with learned biases of distances, and the lowest number where it may not look, as in T5.

    With `blind`, the second query may look nowhere.
    """

    def __init__(self, blind: bool) -> None:
        super().__init__()
        table = torch.linspace(-1.0, 1.0, 44).reshape(11, 4)
        self.table = nn.Parameter(torch.where(torch.arange(11)[:, None] < 6, _NO, table) if blind else table)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        distances = torch.arange(6) - torch.arange(5)[:, None] + 4
        bias = self.table[distances].permute(2, 0, 1)[None].to(query.dtype)
        lowest = bias.new_full((), torch.finfo(bias.dtype).min)
        bias = bias + torch.where(seen[:, None, None], torch.zeros_like(lowest), lowest)
        return _ATTEND(query, key, value, attn_mask=bias, scale=1.0)


def _with_computed_bias(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor
) -> torch.Tensor:
    """Attention with biases of positions that depend on the query, as in MViT, and those with the lowest number."""
    bias = torch.einsum("bhqc,kc->bhqk", query, key[0, 0])
    lowest = torch.where(seen[:, None, None], bias, torch.finfo(bias.dtype).min)
    attended: torch.Tensor = _ATTEND(_ATTEND(query, key, value, attn_mask=bias), key, value, attn_mask=lowest)
    return attended


class _Triangular(nn.Module):
    """Attention of 128 steps with a known mask, which is made at run time for its size, and with learned biases.

    With a `diagonal` of 0, the first step may look nowhere.
    """

    def __init__(self, diagonal: int, infinite: bool, biased: bool) -> None:
        super().__init__()
        self.diagonal, self.infinite = diagonal, infinite
        self.bias = nn.Parameter(torch.linspace(-1.0, 1.0, 128)) if biased else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.ones(128, 128, dtype=torch.bool).triu(self.diagonal)
        lowest = _NO if self.infinite else torch.finfo(x.dtype).min
        mask = torch.zeros(x.shape[0], 4, 128, 128, dtype=x.dtype).masked_fill(hidden, lowest)
        return _ATTEND(x, x, x, attn_mask=mask if self.bias is None else mask + self.bias.to(x.dtype))


#: The last two of the second sequence's five steps are padding.
_PADDING = given([[False] * 5, [False] * 3 + [True] * 2])
#: The second of five queries may attend to nothing.
_EMPTY_ROW = [[True] * 6, [False] * 6, [True] * 3 + [False] * 3, [True, False] * 3, [False] * 5 + [True]]
_FULL_ROWS = [[True] * 6, *_EMPTY_ROW[2:], [True] * 6]
_EMPTY_ROW_FLOATS = [[0.0 if attends else _NO for attends in row] for row in _EMPTY_ROW]

attention = op(
    _ATTEND,
    *_EXAMPLE,
    is_causal=[False, True],
    scale=[None, 0.3],
    dynamic=_LENGTHS,
    sizes={"queries": [1, 9], "keys": [8, 4]},
    without_nan=_NAN_BY_KERNEL,
)
#: Of these, onnxruntime's optimiser makes an invalid model.
attention_of_a_scaled_tensor = op(lambda x: _ATTEND(*[x * 0.5] * 3), floats(2, 4, 8))
attention_ranks = op(
    _ATTEND,
    rows=[
        {"query": floats(5, 8), "key": floats(6, 8), "value": floats(6, 8)},
        {"query": floats(3, 5, 8), "key": floats(3, 6, 8), "value": floats(3, 6, 4)},
        {"query": floats(2, 3, 2, 5, 8), "key": floats(2, 3, 2, 6, 8), "value": floats(2, 3, 2, 6, 8)},
        {"query": floats(2, 3, 5, 8), "key": floats(1, 3, 6, 8), "value": floats(1, 3, 6, 8)},
    ],
    is_causal=[False, True],
)
attention_mask = op(
    _ATTEND,
    *_EXAMPLE,
    attn_mask=[bools(5, 6), bools(2, 1, 5, 6), bools(2, 4, 5, 6), bools(1, 6), floats(5, 6), floats(2, 1, 5, 6)],
    without_nan=_NAN_BY_KERNEL,
)
attention_empty_row = op(_ATTEND, *_EXAMPLE, attn_mask=given(_EMPTY_ROW), scale=[None, 0.3], without_nan=_NAN_BY_KERNEL)
attention_empty_row_floats = op(_ATTEND, *_EXAMPLE, attn_mask=given(_EMPTY_ROW_FLOATS), without_nan=_NAN_BY_KERNEL)
_FEW_FEATURES = floats(2, 4, 6, 3)
_BATCHES = {f"x{number}": {0: "batch"} for number in range(3)}
attention_empty_row_of_few_features = op(
    _ATTEND,
    *_EXAMPLE[:2],
    _FEW_FEATURES,
    attn_mask=given(_EMPTY_ROW),
    dtypes=FLOATS,
    dynamic=_BATCHES,
    without_nan=_NAN_BY_KERNEL,
)
attention_empty_row_floats_of_few_features = op(
    _ATTEND,
    *_EXAMPLE[:2],
    _FEW_FEATURES,
    attn_mask=given(_EMPTY_ROW_FLOATS),
    dynamic=_BATCHES,
    without_nan=_NAN_BY_KERNEL,
)
attention_biased = op(
    _Biased,
    *_EXAMPLE,
    bools(2, 6),
    blind=False,
    nodes={9: 9},
    dynamic={f"x{number}": {0: "batch"} for number in range(4)},
)
attention_computed_bias = op(
    _with_computed_bias,
    *_EXAMPLE[:2],
    floats(2, 4, 6, 8),
    bools(2, 6),
    dynamic={f"x{number}": {0: "batch"} for number in range(4)},
)
attention_lowest_triangle = op(
    lambda x: _ATTEND(x, x, x, attn_mask=x.new_full((x.shape[2],) * 2, torch.finfo(x.dtype).min).triu()),
    floats(2, 3, 4, 8),
    dynamic={"x": {0: "batch", 2: "length"}},
)
attention_known_triangle = op(
    _Triangular,
    floats(2, 4, 128, 8),
    diagonal=1,
    infinite=[False, True],
    biased=[False, True],
    nodes={9: 9},
)
attention_known_and_blind_triangle = op(
    _Triangular,
    floats(2, 4, 128, 8),
    diagonal=0,
    infinite=[False, True],
    biased=[False, True],
    without_nan=_NAN_BY_KERNEL,
)
attention_biased_and_blind = op(_Biased, *_EXAMPLE, bools(2, 6), blind=True)
attention_repeated_mask = op(
    _with_repeated_mask,
    *_EXAMPLE,
    masked=[_EMPTY_ROW, _FULL_ROWS, [[True] * 6] * 5],
    dynamic=_BATCHES,
)
attention_idle_mask = op(_with_idle_masks, *_EXAMPLE)
attention_constant_mask = op(
    _ATTEND, *_EXAMPLE, attn_mask=[bools(5, 6, constant=True), floats(5, 6, constant=True)], without_nan=_NAN_BY_KERNEL
)
attention_grouped = op(
    _ATTEND,
    _QUERY,
    rows=[{"key": floats(2, heads, 6, 8), "value": floats(2, heads, 6, 8)} for heads in (1, 2, 4)],
    enable_gqa=True,
    is_causal=[False, True],
    without_nan=_NAN_BY_KERNEL,
)
attention_grouped_and_empty = op(
    _ATTEND, _QUERY, key=floats(2, 2, 6, 8), value=floats(2, 2, 6, 8), enable_gqa=True,
    dynamic={name: {0: "batch"} for name in ("x", "key", "value")}, sizes={"batch": [0, 1, 3]},
    without_nan=_NAN_BY_KERNEL,
)  # fmt: skip
attention_grouped_mask = op(
    _ATTEND, _QUERY, key=floats(2, 2, 6, 8), value=floats(2, 2, 6, 8), attn_mask=bools(5, 6), enable_gqa=True
)
attention_without_keys = op(
    _ATTEND,
    _QUERY,
    rows=[
        {"key": floats(2, 4, 0, 8), "value": floats(2, 4, 0, 3)},
        {"key": floats(2, 0, 6, 8), "value": floats(2, 0, 6, 8), "enable_gqa": True},
        {"key": floats(2, 4, 0, 8), "value": floats(2, 4, 0, 8), "attn_mask": bools(5, 0)},
    ],
)
attention_dtypes = op(_ATTEND, *_EXAMPLE, is_causal=[False, True], dtypes=FLOATS, without_nan=_NAN_BY_KERNEL)
attention_mask_dtypes = op(_ATTEND, *_EXAMPLE, attn_mask=given(_EMPTY_ROW), dtypes=FLOATS, without_nan=_NAN_BY_KERNEL)
#: NaN in the first row, whose mask excludes nothing. A row whose mask excludes everything is 0 in the model, always.
_QUERY_WITH_NAN = [[[[math.nan, *(column / 8 for column in range(7))], *[[0.5, -1.0] * 4] * 4]]]
attention_nan = op(
    _ATTEND,
    given(_QUERY_WITH_NAN),
    floats(1, 1, 6, 8),
    floats(1, 1, 6, 8),
    attn_mask=given(_EMPTY_ROW),
    without_nan=_NAN_BY_KERNEL,
)

multi_head_attention = op(
    nn.MultiheadAttention,
    floats(5, 2, 8),
    floats(6, 2, 8),
    floats(6, 2, 8),
    **_TWO_HEADS,
    rows=[{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}],
)
multi_head_attention_padding = op(
    nn.MultiheadAttention,
    *[floats(2, 5, 8)] * 3,
    _PADDING,
    **_TWO_HEADS,
    batch_first=True,
)
multi_head_attention_varying = op(
    _Masked,
    floats(2, 5, 8),
    rows=[
        {"masks": "padding", "need_weights": True, "batch_first": True},
        {"masks": "padding", "need_weights": False, "batch_first": False},
        {"masks": "causal", "need_weights": True, "batch_first": False},
        {"masks": "causal", "need_weights": False, "batch_first": True},
        {"masks": "padding and causal", "need_weights": True, "batch_first": True},
    ],
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (1, 4), "b": (3, 7)},
    without_nan=_NAN_BY_KERNEL,
)
multi_head_attention_masks_varying = op(
    _AttendsTo,
    floats(2, 5, 8),
    floats(2, 5, low=-1, high=0),
    floats(5, 5),
    need_weights=[True, False],
    dynamic={"x0": {0: "batch", 1: "steps"}, "x1": {0: "batch", 1: "steps"}, "x2": {0: "steps", 1: "steps"}},
)
multi_head_attention_sizes = op(
    nn.MultiheadAttention, floats(5, 2, 8), floats(6, 2, 3), floats(6, 2, 4), **_TWO_HEADS, kdim=3, vdim=4
)
multi_head_attention_unbatched = op(nn.MultiheadAttention, floats(5, 8), floats(6, 8), floats(6, 8), **_TWO_HEADS)
attention_weights_of_no_positions = op(
    lambda x: F.softmax(x.transpose(0, 1) @ x.permute(1, 2, 0), -1),
    floats(3, 2, 3),
    dynamic={"x": {0: "positions"}},
    sizes={"positions": [0]},
    tier="full",
)
encoder_layer = op(
    nn.TransformerEncoderLayer,
    floats(5, 2, 8),
    **_LAYER,
    activation=["relu", "gelu"],
    norm_first=[False, True],
    dynamic={"x": {0: "steps", 1: "batch"}},
)
encoder_layer_masks = op(
    nn.TransformerEncoderLayer,
    floats(2, 5, 8),
    given([[column > row for column in range(5)] for row in range(5)]),
    _PADDING,
    **_LAYER,
    batch_first=True,
)
decoder_layer = op(
    nn.TransformerDecoderLayer,
    floats(5, 2, 8),
    floats(6, 2, 8),
    **_LAYER,
    norm_first=[False, True],
    dynamic={"x0": {0: "steps", 1: "batch"}, "x1": {0: "memory", 1: "batch"}},
)
transformer = op(
    nn.Transformer,
    floats(5, 2, 8),
    floats(6, 2, 8),
    **_LAYER,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dynamic={"x0": {0: "source", 1: "batch"}, "x1": {0: "target", 1: "batch"}},
)

# --- caches and states ------------------------------------------------------------------------------------------------


def _in_cache(cache: torch.Tensor, new: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """A cache of a fixed size, into which new tokens are written from a position on."""
    positions = torch.arange(new.shape[2], device=new.device) + start
    return cache.index_copy(2, positions, new)


def _gated_delta_rule(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, decay: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear attention with a state that decays and is corrected, as a loop over the tokens."""
    results = torch.zeros_like(value)
    for token in range(query.shape[1]):
        state = state * torch.sigmoid(decay[:, token, :, None])
        row = (value[:, token] - (state * key[:, token, :, None]).sum(-2)) / 8
        state = state + key[:, token, :, None] * row[:, None, :]
        results[:, token] = (state * query[:, token, :, None]).sum(-2)
    return results, state


in_cache = op(
    _in_cache,
    floats(2, 3, 9, 4),
    floats(2, 3, 2, 4),
    given(5),
    dynamic={"x0": {0: "batch"}, "x1": {0: "batch", 2: "new"}},
    sizes={"new": (1, 4)},
)
gated_delta_rule = op(
    _gated_delta_rule,
    floats(2, 7, 4),
    floats(2, 7, 4),
    floats(2, 7, 3),
    floats(2, 7, 4),
    floats(2, 4, 3),
    dynamic={
        **{name: {0: "batch", 1: "tokens"} for name in ("x0", "x1", "x2", "x3")},
        "x4": {0: "batch"},
    },
    dtypes=[torch.float32],
)

# --- flexible attention -----------------------------------------------------------------------------------------------


class Flexible(nn.Module):
    """Scores with a slope for each head, within documents; torch compiles it when it is called."""

    slopes: torch.Tensor

    def __init__(self, grouped: bool) -> None:
        super().__init__()
        self.grouped = grouped
        self.register_buffer("slopes", torch.tensor([0.5, 0.25, 0.125, 1.0]))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        document = torch.arange(k.shape[2], device=k.device) // 3
        result: torch.Tensor = flex_attention(
            q, k, v,
            score_mod=lambda score, batch, head, row, column: score + self.slopes[head] * (column - row),
            block_mask=create_block_mask(
                lambda batch, head, row, column: (row >= column) & (document[row] == document[column]),
                None, None, q.shape[2], k.shape[2], device=str(q.device),
            ),
            enable_gqa=self.grouped,
        )  # fmt: skip
        return result


flexible_attention = op(Flexible, *[floats(2, 4, 6, 8)] * 3, grouped=False, dtypes=[torch.float32], tier="full")
flexible_attention_grouped = op(
    Flexible,
    floats(2, 4, 6, 8),
    *[floats(2, 2, 6, 8)] * 2,
    grouped=True,
    dtypes=[torch.float32],
    tier="full",
)
#: NaN in values, in the first and in the second call, in each dtype.
attention_to_nan = op(
    lambda q, k, v: (_ATTEND(q, k, v), _ATTEND(k, q, v.flip(-1))),
    floats(1, 2, 5, 4),
    floats(1, 2, 5, 4),
    floats(1, 2, 5, 4, special=(math.nan,)),
    dtypes=FLOATS,
    dynamic={"x0": {2: "steps"}, "x1": {2: "steps"}, "x2": {2: "steps"}},
    without_nan=_NAN_BY_KERNEL,
)
#: A query with NaN: torch's fast kernel finds no greatest among few scores that are NaN, and returns 0 as for a row of
#: which a mask excludes all.
_MANY = given(torch.arange(512.0).sin().reshape(1, 2, 64, 4).tolist())
_FEW = given(torch.arange(40.0).sin().reshape(1, 2, 5, 4).tolist())
attention_of_nan = op(
    lambda q, k, v, x: (_ATTEND(q, k, v), torch.ops.aten._safe_softmax(x, -1)),
    given([[[[math.nan, 1.0, -1.0, 0.5], [1.0, 2.0, -0.5, 0.25]]] * 2]),
    _MANY,
    _MANY,
    given([[_NO, math.nan, _NO], [_NO] * 3, [math.nan, 1.0, _NO]]),
    dtypes=[torch.float32],
)
attention_of_nan_to_few = op(
    attended_by_definition,
    given([[[[math.nan, 1.0, -1.0, 0.5], [1.0, 2.0, -0.5, 0.25]]] * 2]),
    _FEW,
    _FEW,
    dtypes=[torch.float64],
)
#: Each argument, in each dtype.
attention_arguments = op(
    _ATTEND,
    *_EXAMPLE,
    rows=[{"scale": 0.3}, {"is_causal": True, "scale": 2.0}, {"attn_mask": given(_EMPTY_ROW_FLOATS), "scale": 0.7}],
    dtypes=FLOATS,
    without_nan=_NAN_BY_KERNEL,
)
