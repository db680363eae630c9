"""Programs that become few nodes: operators that ONNX has for them, and what is merged, folded or left out.

Each declaration says how many nodes this exporter's model has at most, and from which opset on.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import BATCH, bools, floats, ints, op

_HALF_TOO = (torch.float32, torch.float16)

# --- operators that ONNX has ------------------------------------------------------------------------------------------


def normed_in_float32(x: Tensor, scale: Tensor) -> Tensor:
    """As the layers of Llama do, whatever their input's dtype is."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return scale * wide.to(x.dtype)


def normed_over_everything(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean((), keepdim=True) + 0.1) * scale


fused_layer_norm = op(nn.LayerNorm, floats(2, 3, 4), normalized_shape=[4, (3, 4)], nodes={17: 1}, dynamic=BATCH)
fused_group_norm = op(nn.GroupNorm, floats(2, 4, 5), num_groups=2, num_channels=4, nodes={21: 1})
#: An empty batch has no groups: onnxruntime's GroupNormalization does not run for one.
fused_group_norm_of_any_batch = op(
    nn.GroupNorm, floats(2, 4, 5), num_groups=2, num_channels=4, nodes={7: 5}, dynamic=BATCH
)
fused_rms_norm = op(nn.RMSNorm, floats(2, 3, 4), normalized_shape=4, nodes={23: 1}, dynamic=BATCH)
fused_rms_norm_in_float32 = op(
    normed_in_float32, floats(2, 3, 4), floats(4), dtypes=_HALF_TOO, nodes={23: 1}, dynamic={"x0": {0: "batch"}}
)
fused_no_rms_norm = op(normed_over_everything, floats(3, 4), floats(4), nodes={23: 7})
fused_gelu = op(F.gelu, floats(3, 4), approximate=["none", "tanh"], nodes={20: 1}, dynamic=BATCH)
fused_silu = op(F.silu, floats(3, 4), nodes={7: 2}, dynamic=BATCH)
fused_hardswish = op(F.hardswish, floats(3, 4), nodes={14: 1}, dynamic=BATCH)
fused_attention = op(
    F.scaled_dot_product_attention,
    *(floats(2, 3, 4, 8) for _ in range(3)),
    nodes={23: 1, 25: 5},
    without_nan="torch's kernels of attention differ about NaN",
)
fused_linear = op(nn.Linear, floats(3, 4), in_features=4, out_features=2, nodes={7: 1}, dynamic=BATCH)


class Normed(nn.Module):
    """A layer norm as programs write it themselves."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.scale, self.bias = nn.Parameter(torch.linspace(-1.0, 2.0, 6)), nn.Parameter(torch.linspace(1.0, -1.0, 6))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        if self.way == "squares":
            return self.scale * ((x - mean) / torch.sqrt((x - mean).pow(2).mean(-1, keepdim=True) + 0.1)) + self.bias
        if self.way == "variance":
            return (x - mean) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 0.1) * self.scale + self.bias
        deviation = x.std(-1, keepdim=True)  # Which is divided by one element less.
        return self.scale * (x - mean) / (deviation + 0.1) + self.bias


fused_own_layer_norm = op(Normed, floats(2, 3, 6), way=["squares", "variance"], nodes={17: 1}, dynamic=BATCH)
fused_no_layer_norm = op(Normed, floats(2, 3, 6), way="deviation", dynamic=BATCH)


class Convolved(nn.Module):
    def __init__(self, **keywords: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, **keywords)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean, self.norm.running_var = torch.rand(4), torch.rand(4) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.conv(x))
        return normed


fused_batch_norm = op(Convolved, floats(2, 2, 5, 6), bias=[True, False], groups=[1, 2], nodes={7: 1}, dynamic=BATCH)


class Projected(nn.Module):
    """A linear layer and a batch norm of its features, or of the axis before them."""

    def __init__(self, features: int, **keywords: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5, **keywords)
        self.norm = nn.BatchNorm1d(features)
        self.norm.running_mean, self.norm.running_var = torch.rand(features), torch.rand(features) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.linear(x))
        return normed


fused_batch_norm_of_linear = op(Projected, floats(3, 4), features=5, bias=[True, False], nodes={11: 1}, dynamic=BATCH)


class Shared(nn.Module):
    """One batch norm after several layers, each of which gets weights of its own."""

    def __init__(self, layer: type[nn.Module], **keywords: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(4, 4, **keywords) for _ in range(4))
        self.norm = nn.BatchNorm1d(4)
        self.norm.running_mean, self.norm.bias = torch.rand(4), nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.norm(layer(x)) for layer in self.layers]


fused_shared_batch_norm = op(
    Shared,
    rows=[
        {"layer": nn.Linear, "x": floats(3, 4)},
        {"layer": nn.Conv1d, "kernel_size": 1, "x": floats(2, 4, 3)},
    ],
    nodes={7: 4},
)
fused_no_batch_norm = op(Projected, floats(2, 3, 4), features=3, dynamic=BATCH)

# --- what moves elements, and what only repeats them ------------------------------------------------------------------


class Reversed(torch.autograd.Function):
    """Written with ONNX's operators by the user, who leaves the order of the axes to their default."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Transpose", g.op("Transpose", x))


def repeated(x: Tensor, row: Tensor) -> Tensor:
    wide = row.expand_as(x)
    return torch.where(wide > 0, x * wide, -wide)


def repeated_along_either(x: Tensor, row: Tensor) -> Tensor:
    """Both together have the sizes of the result, though neither has them."""
    return x.sum() + row.expand(3, 4) * (row.T[:3].expand(3, 4) - 1)


fused_transposes = op(
    lambda x, first, then: x.permute(first).permute(then),
    floats(2, 3, 4),
    rows=[{"first": (1, 0, 2), "then": (2, 0, 1)}, {"first": (1, 2, 0), "then": (2, 0, 1)}],
    nodes={7: 1},
    dynamic=BATCH,
)
fused_transposes_of_the_user = op(Reversed.apply, floats(2, 3, 4), nodes={7: 2}, dynamic=BATCH)
fused_reshapes = op(lambda x: x.reshape(-1).reshape(4, -1).flatten(), floats(3, 4), nodes={7: 1})
fused_expansions = op(repeated, floats(3, 4), floats(1, 4), nodes={9: 4}, dynamic={"x0": {0: "batch"}})
fused_expansions_along_either = op(repeated_along_either, floats(3, 4), floats(1, 4), nodes={9: 6, 10: 7, 11: 6})

# --- what is known, computed twice, or cast there and back ------------------------------------------------------------


class Joined(nn.Module):
    """Its large integers are joined with small ones before anything is given."""

    large: Tensor
    small: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("large", torch.arange(600).reshape(3, 200))
        self.register_buffer("small", torch.arange(6).reshape(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.cat([self.small, self.large], 1)


def quantized_by_channels(x: Tensor) -> Tensor:
    grid = torch.tensor([0.5, 0.01, 0.3]), torch.zeros(3, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(x, *grid, 1, -128, 127)


def cast_for_branches(x: Tensor, narrow: torch.dtype, wide: torch.dtype) -> Tensor:
    x = x.to(narrow)
    y = x.to(wide).to(narrow)
    chosen: Tensor = torch.cond(x.sum() > 0, lambda x: y + x, lambda x: y - x, (x,))
    return chosen


class Positioned(nn.Module):
    """Each layer makes the distances between all places anew, as in ConViT, and has a gate that is a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.linspace(-1.0, 1.0, 4))

    def forward(self, x: Tensor) -> Tensor:
        for gate in self.gates.unbind():
            places = torch.arange(200)
            distances = torch.zeros(200, 200, 2)
            distances[..., 0] = (places - places[:, None]) / 200
            x = x + distances.mean(2) @ x * torch.sigmoid(gate)
        return x


fused_constants = op(Joined, floats(202), nodes={7: 1})
fused_positions = op(Positioned, floats(200, 3), nodes={7: 20})
fused_common = op(lambda x: (x * 2).exp() + (x * 2).exp(), floats(3, 4), nodes={7: 3}, dynamic=BATCH)
fused_casts = op(
    lambda x, wide: (x.to(wide).to(x.dtype).T, x.to(wide).to(x.dtype)),
    rows=[{"x": floats(3, 4), "wide": torch.float64}, {"x": bools(3, 4), "wide": torch.float32}],
    nodes={7: 2},
    dynamic=BATCH,
)
fused_casts_read_by_branches = op(
    cast_for_branches, ints(4, low=-9, high=9), narrow=torch.int8, wide=[torch.float16, torch.float32, torch.int32]
)
fused_no_casts = op(
    lambda x, narrow: x.to(narrow).to(x.dtype) * 2,
    rows=[{"x": floats(3, 4), "narrow": torch.float16}, {"x": ints(3, 4, high=9999), "narrow": torch.int8}],
    nodes={7: 3},
    dynamic=BATCH,
)
fused_sizes = op(
    lambda x: x.view(x.shape[0] * 1, x.shape[1] * x.shape[2]), floats(2, 3, 4), nodes={7: 1}, dynamic=BATCH
)
#: onnxruntime's optimiser makes a norm of these, whose scale may not have more features than the input.
fused_norm_of_one_feature = op(
    lambda x, scale, bias: scale * ((d := x - x.mean(-1, True)) / (d.pow(2).mean(-1, True) + 1e-5).sqrt()) + bias,
    floats(2, 1), floats(3), floats(3),
)  # fmt: skip
#: onnxruntime's optimiser makes one operator of a product and a factor, which has the factor in float32.
scaled_products_of_doubles = op(
    lambda x, y: (x @ y * 0.1, x / 3 @ y, (y.mT @ x.mT).mT / 0.7 * 2, (x @ y).reshape(3, 2) * 0.1),
    floats(2, 4), floats(4, 3), dtypes=[torch.float64],
)  # fmt: skip
fused_quantization_by_channels = op(
    quantized_by_channels,
    floats(2, 3, 4),
    nodes={13: 2},
    dynamic=BATCH,
    without_nan="the processor decides which integer NaN becomes",
)
