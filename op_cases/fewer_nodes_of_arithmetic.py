"""Programs whose arithmetic, conditions and masks become fewer nodes than they have operators.

Each declaration says how many nodes this exporter's model has at most, and from which opset on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import BATCH, bools, floats, ints, op

_INFINITY = float("inf")


def normed(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


def reciprocals(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of roots of 0, infinity and what is negative, and one that is needed for itself."""
    root = torch.rsqrt(x)
    return x * torch.rsqrt(x * 2), root, (x - x) * root


def buckets(distances: Tensor) -> Tensor:
    """As T5 and LayoutLM put distances into buckets."""
    side = (distances > 0).to(torch.long) * 16
    return side + torch.min(distances.abs() * 3, torch.full_like(distances, 15))


def conditions(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """As numbers that are multiplied and compared; y has infinities, and numbers that are negative."""
    one, other, third = x > 0, x > 1, x > 2
    return one.float() * 2.5, other.long() * x.long(), third.float() * y, (x < 0).float() * -1.0


def compared(x: Tensor) -> Tensor:
    return torch.where((x > 0).long() > 0, x, -x) + torch.where((x > 1).int() == 1, x, 1)


class Placed(nn.Module):
    """Embeddings of positions and of types, which are added one after the other; and what is added and taken away."""

    large: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.places, self.types = nn.Embedding(5, 4), nn.Embedding(2, 4)
        self.register_buffer("large", torch.full((1, 4), 1e8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros(1, 3, dtype=torch.long)
        return x + self.places(torch.arange(3)) + self.types(zeros) + 3.0, x + self.large + -self.large


def masked_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """A mask for all queries, as that of an encoder is made by what makes those of decoders."""
    places = torch.arange(scores.shape[2])
    allowed = mask.new_ones((), dtype=torch.bool) & (places[:, None] >= 0) & mask[:, None, None]
    return scores + torch.where(allowed, 0.0, torch.finfo(scores.dtype).min)


fewer_for_roots = op(normed, floats(2, 3, 4), floats(4), nodes={7: 6, 23: 1}, dynamic={"x0": {0: "batch"}})
fewer_for_reciprocals = op(reciprocals, floats(9, special=(0.0, -0.0, _INFINITY, 1e-38, 1e38)))
fewer_for_buckets = op(buckets, ints(3, 4, low=-9, high=9), nodes={12: 6}, dynamic=BATCH)
fewer_for_conditions = op(conditions, ints(6, low=-2, high=4), floats(6, special=(_INFINITY, -_INFINITY)))
fewer_for_compared = op(compared, ints(3, 4, low=-3, high=3), nodes={9: 6}, dynamic=BATCH)
fewer_for_constants = op(Placed, floats(1, 3, 4), nodes={7: 4})
fewer_for_zeros_of_both_signs = op(
    lambda x: (x / torch.full_like(x, 0.0), x / torch.full_like(x, -0.0)), floats(3, 4), nodes={9: 2}, dynamic=BATCH
)
fewer_no_numbers_of_float64 = op(
    lambda x: (x * torch.full_like(x, 0.1)) @ x.transpose(1, 2), floats(2, 3, 4), dtypes=(torch.float64,), dynamic=BATCH
)
fewer_for_the_same_twice = op(lambda x: (((x > 0) & (x > 0)) | (x > 0)).float(), floats(4), nodes={7: 2})
fewer_for_chosen_groups = op(
    lambda x: (x.softmax(1).argmax(1), x.log_softmax(2).argmin(2, keepdim=True)),
    floats(2, 5, 6, special=(float("nan"), _INFINITY, -_INFINITY)),
    nodes={13: 4},
    dynamic=BATCH,
)
fewer_for_chosen_rows = op(
    lambda x, y: y[torch.arange(3), x.softmax(1).argmax(1)] * 2, floats(3, 4), floats(3, 4, 2), nodes={11: 6}
)
fewer_for_masked_scores = op(
    masked_scores,
    floats(2, 3, 4, 5),
    bools(2, 5),
    nodes={9: 3},
    dynamic={"x0": {0: "batch", 2: "queries", 3: "keys"}, "x1": {0: "batch", 1: "keys"}},
)
fewer_for_attention_to_what_is_seen = op(
    lambda x, seen: F.scaled_dot_product_attention(x, x, x, (torch.arange(x.shape[2])[:, None] >= 0) & seen),
    floats(2, 3, 4, 2),
    bools(2, 1, 1, 4),
    nodes={11: 10},
    dynamic={"x0": {0: "batch", 2: "length"}, "x1": {0: "batch", 3: "length"}},
    without_nan="torch's kernels of attention differ about NaN",
)
fewer_for_idle_logic = op(
    lambda x: (
        (x > 0) | torch.zeros_like(x, dtype=torch.bool),
        torch.logical_and(x, torch.ones(300, 1, 4, dtype=torch.bool)),
    ),
    floats(3, 4),
    nodes={8: 3},
)


# --- sizes ------------------------------------------------------------------------------------------------------------


class UpAndDown(nn.Module):
    """A network whose second half has the sizes of the first: each normalized image has elements."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(3, 2, 2, stride=2, bias=False)
        self.norm = nn.InstanceNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.up(self.down(x)))
        return normed


def to_the_size_of(x: Tensor) -> Tensor:
    """Half as many elements, rounded up, and as many again."""
    return F.interpolate(F.avg_pool2d(x, 2, ceil_mode=True), size=x.shape[2:])


_IMAGES = {"x": {0: "batch", 2: "height", 3: "width"}}
fewer_for_half = op(lambda x: x[: x.shape[0] // 2].relu(), floats(4, 3), nodes={15: 4}, dynamic=BATCH)
fewer_for_half_rounded_up = op(lambda x: x[: -(-x.shape[0] // 2)].relu(), floats(4, 3), nodes={15: 5}, dynamic=BATCH)
fewer_for_up_and_down = op(UpAndDown, floats(2, 2, 6, 8), nodes={7: 3}, dynamic=_IMAGES)
fewer_for_sizes_of_others = op(to_the_size_of, floats(2, 2, 5, 8), nodes={15: 22}, dynamic=_IMAGES)
