"""Programs that move, repeat, pad or select elements in several steps, which become one node or none.

Each declaration says how many nodes this exporter's model has at most, and from which opset on.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import BATCH, floats, ints, numbers, op

#: Why some cases do not run with a NaN.
_NAN_LEFT_OUT = "onnxruntime's MaxPool leaves NaN out"
#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "NaN times zeros of the transform's matrix is NaN"

_INFINITY = float("inf")
_TWO_BATCHES = {"x0": {0: "batch"}, "x1": {0: "batch"}}

# --- selecting --------------------------------------------------------------------------------------------------------


def masks(x: Tensor) -> Tensor:
    """Attention masks for all sequences, as transformers makes them."""
    batch, length = x.shape
    return x[torch.arange(batch)[:, None, None, None], torch.arange(length)[None, None, None]].relu()


def turned(x: Tensor) -> Tensor:
    return x[torch.arange(2)[None], torch.arange(3)[:, None]].relu()


def chosen_pairs(x: Tensor) -> Tensor:
    return x[torch.tensor([[1], [0], [-1]]), torch.tensor([[2, 0, 0]])]


def chosen_pairs_behind(x: Tensor) -> Tensor:
    return x[:, torch.tensor([[1], [0], [-1]]), torch.tensor([[2, 0, 0]])]


def first_rows(x: Tensor) -> tuple[Tensor, ...]:
    return x[torch.arange(2)], x[torch.arange(2), torch.arange(2)], x[torch.arange(2)[:, None], torch.arange(2)]


def last_tokens(tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """As many as there are, as models with a cache select those that are new."""
    length = tokens.shape[1]
    return tokens[:, -length:].relu(), places[:, :length][:, -length:].relu()


fewer_for_masks = op(masks, floats(2, 5), nodes={7: 2}, dynamic={"x": {0: "batch", 1: "length"}})
fewer_for_masks_of_one = op(masks, floats(1, 5), nodes={7: 2})
fewer_for_turned = op(turned, floats(2, 3, 4), nodes={7: 2})
fewer_for_pairs = op(chosen_pairs, floats(2, 3, 4), nodes={7: 2, 11: 1})
fewer_for_pairs_behind = op(chosen_pairs_behind, floats(2, 3, 4), nodes={7: 4, 11: 3}, dynamic=BATCH)
fewer_for_last_tokens = op(
    last_tokens,
    floats(2, 5),
    floats(1, 8),
    nodes={10: 5, 15: 4},
    dynamic={"x0": {1: "length"}},
    sizes={"length": [1, 8, 9]},
)
fewer_for_first_rows = op(first_rows, floats(3, 3, 2))

# --- repeating --------------------------------------------------------------------------------------------------------


def heads_repeated(x: Tensor) -> Tensor:
    """Keys or values for three times as many heads of the query."""
    batch, heads, length, size = x.shape
    return x[:, :, None].expand(batch, heads, 3, length, size).reshape(batch, heads * 3, length, size)


def rows_tiled(x: Tensor) -> Tensor:
    return x[:, None].expand(-1, 2, 3, 4).reshape(-1, 6, 4)


fewer_for_heads = op(heads_repeated, floats(2, 2, 4, 5), nodes={8: 1}, dynamic={"x": {0: "batch", 2: "length"}})
fewer_for_rows = op(rows_tiled, floats(2, 3, 4), nodes={8: 1}, dynamic=BATCH)
fewer_for_interleaved = op(
    lambda x: x.repeat_interleave(2, -1), floats(3, 4), nodes={8: 1}, dynamic={"x": {0: "batch"}}
)

# --- moving -----------------------------------------------------------------------------------------------------------


def split_and_joined_again(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], -1, 2, 1, 2).reshape(x.shape[0], -1, 4).relu()


def reshaped_by_steps(x: Tensor) -> Tensor:
    result: Tensor = x.unflatten(2, (2, 1, 2)).flatten(3)
    return result


fewer_for_joined_again = op(
    split_and_joined_again, floats(2, 3, 4), nodes={7: 1}, dynamic={"x": {0: "batch", 1: "length"}}
)
fewer_for_steps = op(reshaped_by_steps, floats(2, 3, 4), nodes={7: 1}, dynamic={"x": {0: "batch", 1: "length"}})
fewer_for_new_axes = op(lambda x: x[:, None][..., None], floats(3, 4), nodes={7: 1}, dynamic=BATCH)
fewer_for_transposed_products = op(
    lambda x, y: (x.transpose(0, 1) * y.transpose(0, 1)).transpose(0, 1).relu(),
    floats(2, 3, 4),
    floats(2, 3, 4),
    nodes={7: 2},
    dynamic=_TWO_BATCHES,
)
fewer_for_a_transposed_side = op(
    lambda x, y: (x.permute(1, 2, 0) * y.exp()).permute(2, 0, 1).tanh(), floats(2, 3, 4), floats(3, 4, 2), nodes={7: 4}
)
fewer_for_slices_of_joins = op(
    lambda x, y: [torch.cat([x, y], 1)[:, place] for place in (slice(2), slice(1, 3), slice(3, 5), slice(2, 4), 1)],
    numbers(3, 3), numbers(3, 2), dtypes=[torch.float32, torch.float64, torch.float16, torch.int64],
)  # fmt: skip
fewer_for_ends_of_joins = op(
    lambda x, y, start: torch.cat([x, y], 1)[:, start:].relu(), floats(3, 3), floats(3, 3), start=[1, 4, 5, -2, -1, -5]
)
fewer_for_empty_parts = op(
    lambda x: torch.cat([x, x[:, :0], x.new_empty(x.shape[0], 0)], 1).relu(), floats(3, 4), nodes={7: 1}, dynamic=BATCH
)

fewer_for_blocks = op(F.unfold, floats(2, 3, 4, 6), kernel_size=[(2, 3)], stride=(2, 3), nodes={7: 3}, dynamic=BATCH)
fewer_for_padded_blocks = op(F.unfold, floats(2, 3, 3, 6), kernel_size=2, stride=2, padding=(1, 0), dynamic=BATCH)
fewer_for_blocks_put_together = op(
    F.fold,
    floats(2, 18, 4),
    output_size=(4, 6),
    kernel_size=[(2, 3)],
    stride=(2, 3),
    nodes={7: 3},
    dynamic=BATCH,
)
overlapping_blocks_put_together = op(
    F.fold,
    rows=[
        {"input": floats(2, 12, 25), "output_size": (6, 6), "kernel_size": 2},
        {"input": floats(2, 12, 9), "output_size": (7, 6), "kernel_size": 2, "stride": 2},
        {"input": floats(12, 36), "output_size": (6, 6), "kernel_size": 2, "padding": 1, "dilation": 2},
        {"input": floats(0, 12, 6), "output_size": (4, 6), "kernel_size": 2, "stride": 2},
    ],
)
blocks_put_together_to_any_size = op(
    lambda x: F.fold(F.unfold(x, 2, stride=2) * 2, x.shape[2:], 2, stride=2),
    floats(2, 3, 6, 6),
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"height": [5, 4], "width": [7, 2], "batch": [1, 3]},
)
blocks_of_any_channels = op(
    F.unfold,
    floats(2, 3, 6, 6),
    kernel_size=2,
    stride=2,
    dynamic={"x": {0: "batch", 1: "channels"}},
    sizes={"batch": [0, 1], "channels": [5, 1]},
)
fewer_for_one_image = op(F.fold, floats(18, 4), output_size=(4, 6), kernel_size=[(2, 3)], stride=(2, 3), nodes={7: 3})
fewer_for_windows = op(lambda x: x.unfold(1, 3, 3).relu(), floats(2, 6, 4), nodes={7: 3}, dynamic=BATCH)
fewer_for_same_size = op(
    lambda x, mode: F.interpolate(x, (4, 5), mode=mode).relu(),
    floats(2, 3, 4, 5),
    mode=["nearest", "bilinear", "bicubic"],
    nodes={7: 1},
    dynamic=BATCH,
    without_nan=_NAN_LEFT_OUT,
)


def transposed_twice(x: Tensor) -> tuple[Tensor, ...]:
    """Outputs that are the same, and of which others are computed."""
    y = x * 2
    z = y.T.T
    return z, y, z.T.T + 1, x.T.T


fewer_for_an_output = op(lambda x: (x * 2).T.T, floats(3, 4), nodes={7: 1}, dynamic=BATCH)
fewer_for_outputs = op(transposed_twice, floats(3, 4), nodes={7: 4}, dynamic=BATCH)

# --- writing in loops -------------------------------------------------------------------------------------------------


def steps(x: Tensor) -> Tensor:
    """A state for each step, written to its place."""
    states, state = torch.zeros_like(x), torch.zeros_like(x[:, 0])
    for step in range(x.shape[1]):
        state = state * 0.5 + x[:, step]
        states[:, step] = state
    return states.exp()


def every_other_pair(x: Tensor) -> tuple[Tensor, ...]:
    pairs = torch.zeros_like(x)
    for step in range(1, 8, 4):
        pairs[step : step + 2] = x[step - 1 : step + 1] * step
    return pairs[2:8], pairs[5:7].relu(), pairs[6:9], pairs[3:4]


fewer_for_steps_of_a_loop = op(steps, floats(2, 6, 3), nodes={7: 30}, dynamic=BATCH)
fewer_for_pairs_of_a_loop = op(every_other_pair, floats(9, 2))

# --- neutral elements -------------------------------------------------------------------------------------------------


class Branches(nn.Module):
    """Sums that begin with 0, and factors of 1, as of networks that have other configurations too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        total: Any = 0
        for _ in range(3):
            total = total + self.linear(x) * torch.tensor(1.0) / 1.0 - 0.0
        result: Tensor = self.linear(total)
        return result


fewer_for_branches = op(Branches, floats(3, 4), nodes={7: 4}, dynamic=BATCH)
fewer_for_zeros_of_integers = op(lambda x: (x + 0) * 3, ints(4, low=-9, high=9), nodes={7: 1})
fewer_for_no_mask = op(lambda x: (x > 0) & torch.tensor(True) | (x < -1), floats(4), nodes={7: 3})

# --- padding ----------------------------------------------------------------------------------------------------------


class Padded(nn.Module):
    """A convolution that pads its input itself, as networks that were trained in TensorFlow do."""

    def __init__(self, amounts: tuple[int, ...], value: float = 0.0, **keywords: Any) -> None:
        super().__init__()
        self.amounts, self.value = amounts, value
        self.conv = nn.Conv2d(2, 3, 3, **keywords)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.conv(F.pad(x, self.amounts, value=self.value))
        return result


def pooled(x: Tensor, pool: Any, value: float, amounts: tuple[int, ...]) -> Tensor:
    result: Tensor = pool(F.pad(x, amounts, value=value), 3, 2)
    return result


fewer_for_padded = op(
    Padded,
    floats(2, 2, 5, 6),
    rows=[{"amounts": (0, 1, 0, 1), "stride": 2}, {"amounts": (1, 2, 3, 4), "padding": (2, 1)}],
    nodes={7: 1},
    dynamic=BATCH,
)
fewer_for_cropped = op(
    Padded,
    floats(2, 2, 5, 6),
    rows=[{"amounts": (-1, 1, 0, 1)}, {"amounts": (1, 1), "value": 2.0}],
    nodes={11: 2},
    dynamic=BATCH,
)
fewer_for_pooled = op(
    pooled,
    floats(2, 2, 7, 8),
    rows=[
        {"pool": F.avg_pool2d, "value": 0.0, "amounts": (1, 2, 0, 1)},
        {"pool": F.max_pool2d, "value": -_INFINITY, "amounts": (1, 2, 0, 1)},
    ],
    nodes={8: 1},
    dynamic=BATCH,
    without_nan=_NAN_LEFT_OUT,
)
fewer_for_pooled_otherwise = op(
    pooled,
    floats(2, 2, 7, 8),
    rows=[
        {"pool": F.avg_pool2d, "value": 1.0, "amounts": (1, 1, 1, 1)},
        {"pool": F.max_pool2d, "value": 0.0, "amounts": (1, 1, 1, 1)},
    ],
    nodes={8: 2},
    dynamic=BATCH,
    without_nan=_NAN_LEFT_OUT,
)

pooled_with_gaps = op(
    lambda x: F.max_pool1d(F.pad(x, (1, 1), value=-_INFINITY), 2, 1, dilation=2),
    floats(2, 3, 4),
    dynamic={"x": {2: "width"}},
    sizes={"width": [1, 2]},
    without_nan=_NAN_LEFT_OUT,
)
fewer_for_pooled_beyond_the_kernel = op(
    pooled, floats(2, 2, 7, 8), pool=F.avg_pool2d, value=0.0, amounts=(3, 3, 0, 0), nodes={7: 2}, dynamic=BATCH
)

# --- what weights and buffers say -------------------------------------------------------------------------------------


class Known(nn.Module):
    """Functions of weights and buffers, of which nothing is left for the model to compute."""

    places: Tensor
    angles: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.linspace(-25.0, 25.0, 4))
        self.register_buffer("places", torch.arange(4))
        self.register_buffer("angles", torch.linspace(0.1, 2.0, 8).reshape(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        angles = self.angles.clone()
        angles[0, 1::2] = self.angles[1, 1::2]
        mask = (self.places[:, None] >= self.places) & (self.places[:, None] != 0)
        bias = torch.where(mask, F.softplus(self.slopes), self.slopes.softmax(0))
        return x + (angles.tanh().sum(1).log().abs() ** 1.5)[:, None] + bias[1] + self.places.repeat(2, 1)


fewer_for_known = op(Known, floats(2, 4), nodes={11: 4})

fewer_for_tokens_of_experts = op(
    lambda x: torch.histc(x.float(), bins=6, min=0, max=5),
    ints(5, 3, low=-2, high=9),
    nodes={11: 6},
    dynamic=BATCH,
)

# --- products and transforms ------------------------------------------------------------------------------------------

fewer_for_dots = op(
    lambda x0, x1: torch.einsum("...qhd,...khd->...hqk", x0, x1),
    floats(2, 5, 3, 4),
    floats(2, 6, 3, 4),
    nodes={7: 3},
    dynamic=_TWO_BATCHES,
)
fewer_for_rows_of_two_axes = op(
    lambda x0, x1: torch.einsum("bhnkf,bhgf->bhnkg", x0, x1),
    floats(2, 3, 4, 5, 6),
    floats(2, 3, 7, 6),
    nodes={7: 3},
    dynamic=_TWO_BATCHES,
)
fewer_for_a_vector_in_each_batch = op(
    lambda x0, x1: torch.einsum("bnkf,bf->bkn", x0, x1),
    floats(2, 3, 4, 5),
    floats(2, 5),
    nodes={7: 4},
    dynamic=_TWO_BATCHES,
)
fewer_for_dots_alone = op(
    lambda x0, x1: (torch.einsum("...ij,...jk", x0, x1), torch.einsum("i...,i...", x0, x0)),
    floats(2, 3, 4),
    floats(2, 4, 5),
)
fewer_for_transforms = op(
    lambda x: (z := torch.fft.fftn(x, dim=(1, 2))).real + z.imag, floats(2, 7, 8), nodes={17: 8}, dynamic=BATCH
)
fewer_for_parts_of_transforms = op(
    lambda x, part: getattr(torch.fft.fftn(x, dim=(1, 2)), part) * 2,
    floats(2, 7, 8),
    part=["real", "imag"],
    nodes={17: 4},
    dynamic=BATCH,
    without_nan=_NAN_TIMES_ZERO,
)
fewer_for_parts_along_one_axis = op(
    lambda x: (torch.fft.fft(x).real, torch.fft.fft(x * 2).imag, torch.fft.fft(x, dim=-2).real, torch.fft.ifft(x).real),
    floats(2, 5, 6),
    dynamic=BATCH,
    without_nan=_NAN_TIMES_ZERO,
)
fewer_for_mixed_tokens = op(
    lambda x: torch.fft.fft2(x).real, floats(1, 12, 300), nodes={17: 3}, without_nan=_NAN_TIMES_ZERO
)


class Rows(nn.Module):
    """Linear layers of rows, which are the last axis of a tensor, as GPT-2 writes them, and of rows of half an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(6))
        self.linear, self.pairs = nn.Linear(6, 4, bias=False), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.addmm(self.bias, x.reshape(-1, 4), self.weight).view(*x.shape[:-1], 6).relu()
        result = self.linear(hidden.reshape(-1, 6)).view(x.shape)
        return result, self.pairs(x.reshape(-1, 2)).view(-1, x.shape[1] * 2, 3)


class Layers(nn.Module):
    """What a layer makes of a table that the program has, as of positions or of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = nn.Linear(3, 5), nn.Parameter(torch.randn(3, 5))

    def forward(self, x: Tensor) -> Tensor:
        table = torch.arange(12.0).reshape(4, 3)
        result: Tensor = x + self.linear(table) + table @ self.weight
        return result


fewer_for_rows_of_features = op(Rows, floats(2, 3, 4), nodes={11: 7}, dynamic=BATCH)


class Sides(nn.Module):
    """Layers in branches, and weights that are added there; and one that has a name which onnx_ir gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        for name, sizes in (("a", (6,)), ("b", (3, 6)), ("c", (6,)), ("d", (3, 6)), ("val_0", (6,))):
            self.register_parameter(name, nn.Parameter(torch.randn(sizes)))

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = torch.cond(
            x.sum() > 0,
            lambda x: self.first(x.reshape(-1, 6)).reshape(x.shape),
            lambda x: self.second(x.reshape(-1, 6)).reshape(x.shape),
            (x,),
        )
        added: Tensor = torch.cond(
            rows.sum() > 0, lambda x: x + self.a + self.b, lambda x: x + self.c + self.d, (rows,)
        )
        result: Tensor = added * self.get_parameter("val_0")
        return result


fewer_for_sides = op(Sides, floats(2, 3, 6))
fewer_no_rows_of_branches = op(
    lambda x, y: torch.cond(
        x.sum() > 0, lambda h: h.reshape(2, 3, 5) * 1, lambda h: h.new_zeros(2, 3, 5), (x.reshape(6, 4) @ y,)
    ),
    floats(2, 3, 4),
    floats(4, 5),
)
fewer_for_tables_in_layers = op(Layers, floats(4, 5), nodes={7: 1})
