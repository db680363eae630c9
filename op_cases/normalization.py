"""Normalization: batch, instance, layer, group and root-mean-square norms, in inference and in training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, WIDE_FLOATS, Rows, floats, op


class OfOneKernel(nn.Module):
    """Two convolutions by one kernel: neither can become one with the norm that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.linspace(-1, 1, 32).reshape(4, 4, 2))
        self.biases = nn.Parameter(torch.linspace(-0.5, 0.5, 8).reshape(2, 4))
        self.norms = nn.ModuleList(nn.BatchNorm1d(4, eps) for eps in (1e-5, 0.5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = self.norms
        return first(F.conv1d(x, self.kernel, self.biases[0])), second(F.conv1d(x * 2, self.kernel, self.biases[1]))


class AfterConvolution(nn.Module):
    """A norm that becomes part of the convolution before it."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(4, 3, 2, bias=bias), nn.BatchNorm1d(3, 0.01)
        statistics = torch.tensor([[0.5, -1.0, 2.0], [0.3, 1.5, 4.0], [-2.0, 0.7, 1.2], [0.4, -0.6, 0.1]])
        mean, variance, scale, shift = statistics
        self.norm.load_state_dict(
            {"running_mean": mean, "running_var": variance, "weight": scale, "bias": shift}, False
        )

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        norm, convolved = self.norm, self.convolution(x)
        if scale is not None:
            return F.batch_norm(convolved, norm.running_mean, norm.running_var, scale, norm.bias, eps=norm.eps)
        found: torch.Tensor = norm(convolved)
        return found


_FORMS: Rows = [
    {},
    {"affine": False},
    {"eps": 0.3},
    {"track_running_stats": False},
    {"affine": False, "track_running_stats": False},
]
_INSTANCES: Rows = [{}, {"affine": True}, {"eps": 0.3}, {"track_running_stats": True}]

batch_norm1d = op(nn.BatchNorm1d, floats(3, 4, 5), num_features=4, rows=_FORMS, dynamic=BATCH)
batch_norm1d_of_vectors = op(
    nn.BatchNorm1d, floats(3, 4), num_features=4, rows=_FORMS, dynamic=BATCH, sizes={"batch": [2, 7]}
)
batch_norm2d = op(
    nn.BatchNorm2d, floats(3, 4, 5, 6), num_features=4, rows=_FORMS, dynamic={"x": {0: "batch", 2: "height"}}
)
batch_norm3d = op(nn.BatchNorm3d, floats(2, 4, 3, 5, 2), num_features=4, rows=_FORMS)
batch_norm2d_training = op(
    nn.BatchNorm2d, floats(3, 4, 5, 6), num_features=4, rows=_FORMS, momentum=[0.1, None], train=True,
    dynamic=BATCH,
)  # fmt: skip
batch_norm = op(
    F.batch_norm,
    floats(3, 4, 5),
    running_mean=floats(4),
    running_var=floats(4, low=0.5, high=1.5),
    rows=[{}, {"weight": floats(4)}, {"bias": floats(4)}, {"weight": floats(4), "bias": floats(4)}],
    dtypes=FLOATS,
)
batch_norm_after_convolution = op(AfterConvolution, floats(3, 4, 5), bias=[False, True], dynamic=BATCH)
batch_norm_with_computed_scale = op(AfterConvolution, floats(3, 4, 5), scale=floats(3), bias=True)
batch_norms_of_one_kernel = op(OfOneKernel(), floats(3, 4, 5))
batch_norms_in_turn = op(
    lambda x, mean, variance: (
        F.batch_norm(x, None, None, training=True), F.batch_norm(x * 2, None, None, mean, variance, True, eps=0.1),
        F.batch_norm(x, mean, variance), F.batch_norm(x, variance, mean.exp(), eps=0.01),
    ), floats(3, 4, 5), mean=floats(4), variance=floats(4, low=0.5, high=1.5),
)  # fmt: skip
batch_norm_mixed = op(
    lambda x, mean, variance: F.batch_norm(x, mean, variance, eps=0.1),
    floats(3, 4, 5, dtype=torch.float16),
    mean=floats(4, dtype=torch.float32),
    variance=floats(4, low=0.5, high=1.5, dtype=torch.float32),
)
batch_norm_training = op(
    lambda x, mean, variance, **options: (F.batch_norm(x, mean, variance, training=True, **options), mean, variance),
    floats(3, 4, 5),
    mean=floats(4),
    variance=floats(4, low=0.5, high=1.5),
    rows=[{}, {"weight": floats(4), "bias": floats(4)}, {"momentum": 0.3}],
    dynamic={"x": {0: "batch", 2: "length"}},
    sizes={"batch": [1, 5], "length": [4, 1]},
)
batch_statistics = op(
    lambda x, **given: torch.ops.aten._native_batch_norm_legit.no_stats(
        x, given.get("weight"), given.get("bias"), True, 0.1, 1e-5
    ),
    floats(3, 4, 5),
    rows=[{}, {"weight": floats(4), "bias": floats(4)}],
    dtypes=FLOATS,
)
batch_statistics_kept = op(
    lambda x, mean, variance: (
        *torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, True, 0.1, 1e-5), mean, variance,
    ),
    floats(3, 4, 5),
    mean=floats(4),
    variance=floats(4, low=0.5, high=1.5),
    dtypes=FLOATS,
)  # fmt: skip
#: There are none: torch returns vectors without elements.
statistics_of_evaluation = op(
    lambda x, mean, variance: torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, False, 0.1, 1e-5),
    floats(3, 4, 5),
    mean=floats(4),
    variance=floats(4, low=0.5, high=1.5),
    dynamic=BATCH,
)
#: Its schema does not declare that it writes to the statistics.
batch_statistics_written = op(
    lambda x, mean, variance: (
        *torch.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5), mean, variance,
    ),
    floats(3, 4, 5),
    mean=floats(4),
    variance=floats(4, low=0.5, high=1.5),
)  # fmt: skip


class Branched(nn.Module):
    """A norm of a convolution whose result is used without the norm, too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.convolution(x)
        normalized: torch.Tensor = self.norm(y)
        return y - normalized


batch_norm_beside_convolution = op(Branched, floats(2, 2, 4))
batch_norm_training_after_convolution = op(
    lambda x, w, mean, variance: F.batch_norm(F.conv1d(x, w), mean, variance, training=True),
    floats(3, 2, 4),
    w=floats(3, 2, 2, constant=True),
    mean=floats(3, constant=True),
    variance=floats(3, low=0.5, high=1.5, constant=True),
)

instance_norm1d = op(nn.InstanceNorm1d, floats(2, 4, 5), num_features=4, rows=_INSTANCES, dynamic=BATCH)
instance_norm2d = op(
    nn.InstanceNorm2d, floats(2, 4, 5, 6), num_features=4, rows=_INSTANCES, dynamic={"x": {0: "batch", 2: "height"}}
)
instance_norm3d = op(nn.InstanceNorm3d, floats(2, 4, 3, 5, 2), num_features=4, rows=_INSTANCES)
instance_norm_unbatched = op(nn.InstanceNorm1d, floats(4, 5), num_features=4, affine=[False, True])
instance_norm_training = op(
    nn.InstanceNorm1d, floats(2, 4, 5), num_features=4, track_running_stats=[False, True], train=True
)
#: Numbers so small that the epsilon makes a difference, in all dtypes.
_SMALL, _TINY = floats(2, 4, 5, low=-0.01, high=0.01), floats(2, 4, 5, low=-1e-3, high=1e-3)
instance_norm_of_no_positions = op(
    lambda x: F.instance_norm(x.permute(0, 2, 1)),
    floats(2, 5, 3),
    dynamic={"x": {1: "positions"}},
    sizes={"positions": [0]},
)
norms_of_some_columns = op(
    lambda x: (F.instance_norm(x[..., 1:] * 2), F.group_norm(x[..., 1:], 2), F.group_norm(x * 2, 1)),
    floats(2, 4, 3, 5),
    dynamic={"x": {2: "height", 3: "width"}},
    sizes={"height": [0, 2, 3, 7], "width": [5, 1, 0, 3]},
)
instance_norm_dtypes = op(F.instance_norm, _SMALL, weight=floats(4), bias=floats(4), dtypes=FLOATS)

layer_norm = op(
    nn.LayerNorm,
    floats(2, 3, 4),
    normalized_shape=[4, (3, 4), (2, 3, 4)],
    elementwise_affine=[True, False],
    bias=[True, False],
    eps=[1e-5, 0.1],
)
layer_norm_any_batch = op(nn.LayerNorm, floats(2, 3, 4), normalized_shape=4, dynamic={"x": {0: "batch", 1: "steps"}})
layer_norm_dtypes = op(
    F.layer_norm,
    floats(2, 3, 4, low=-0.01, high=0.01),
    normalized_shape=(4,),
    rows=[{}, {"weight": floats(4), "bias": floats(4)}],
    dtypes=FLOATS,
)
layer_norm_bias_only = op(F.layer_norm, floats(2, 4), normalized_shape=(4,), bias=floats(4))
layer_norm_statistics = op(
    torch.native_layer_norm, floats(2, 4), normalized_shape=(4,), weight=floats(4), bias=None, eps=0.1
)
layer_norm_mixed = op(
    F.layer_norm, floats(2, 4, dtype=torch.float16), normalized_shape=(4,), weight=floats(4, dtype=torch.float32)
)
layer_norm_small_epsilon = op(
    F.layer_norm, _TINY, normalized_shape=(5,), rows=[{}, {"weight": floats(5), "bias": floats(5)}], eps=1e-8
)
group_norm = op(
    nn.GroupNorm, floats(2, 4, 5), num_groups=[1, 2, 4], num_channels=4, affine=[True, False], dynamic=BATCH
)
group_norm_of_any_channels = op(
    lambda x: (F.group_norm(x, 2), F.group_norm(x, x.shape[1] // 2, torch.ones(x.shape[1]), x[0, :, 0])),
    floats(2, 4, 5),
    dynamic={"x": {0: "batch", 1: "2*channels", 2: "length"}},
    sizes={"2*channels": [2, 6], "length": [3, 7]},
)
group_norm_shapes = op(F.group_norm, num_groups=2, rows=[{"input": floats(2, 4)}, {"input": floats(2, 4, 3, 5)}])
group_norm_any_image = op(
    nn.GroupNorm, floats(2, 4, 5, 6), num_groups=2, num_channels=4, dynamic={"x": {0: "batch", 2: "height", 3: "width"}}
)
group_norm_statistics = op(
    lambda x: torch.native_group_norm(x, None, None, x.shape[0], 4, x.shape[2] * x.shape[3], 2, 1e-5),
    floats(2, 4, 3, 5),
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"batch": [1, 7, 2], "height": [1, 2, 5], "width": [3, 2, 5]},
)
statistics_of_nothing = op(
    lambda x: (
        *torch.native_group_norm(x, None, None, x.shape[0], 4, x.shape[2] * x.shape[3], 2, 1e-5),
        *torch.native_layer_norm(x, (x.shape[3],), None, None, 1e-5),
    ),
    floats(2, 4, 3, 0),
    dynamic={"x": {2: "height"}},
)
group_norm_dtypes = op(F.group_norm, _SMALL, num_groups=2, weight=floats(4), bias=floats(4), dtypes=FLOATS)
group_norm_small_epsilon = op(
    F.group_norm, _TINY, num_groups=2, rows=[{}, {"weight": floats(4), "bias": floats(4)}], eps=1e-8
)
rms_norm = op(
    nn.RMSNorm,
    floats(2, 3, 4),
    normalized_shape=[4, (3, 4)],
    elementwise_affine=[True, False],
    eps=[None, 0.1],
    dynamic=BATCH,
)
rms_norm_written_out = op(
    lambda x, scale, **axes: x * torch.rsqrt(x.pow(2).mean(**axes) + 0.1) * scale,
    floats(2, 4, 4),
    rows=[
        {"scale": floats(4), "dim": -1, "keepdim": True},
        {"scale": floats(4, 4), "dim": -1, "keepdim": True},
        {"scale": floats(4), "dim": 1, "keepdim": True},
        {"scale": floats(4)},
    ],
    dynamic=BATCH,
)
rms_norm_dtypes = op(F.rms_norm, floats(2, 3, 4), normalized_shape=(4,), weight=[None, floats(4)], dtypes=FLOATS)
local_response_norm = op(
    nn.LocalResponseNorm,
    floats(2, 6, 5, 4),
    size=[2, 3],
    alpha=[1e-4, 0.5],
    k=[1.0, 2.0],
    dtypes=WIDE_FLOATS,
)
normalize = op(F.normalize, floats(3, 4), p=[1.0, 2.0, 3.0], dim=[0, 1])
normalization_dropout = op(F.dropout, floats(3, 4), p=[0.0, 0.5], training=False)
dropout_modules = op(
    lambda x, module: module(0.5).eval()(x),
    floats(2, 3, 4, 5),
    module=[nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout],
)
normalization_dropout_certain = op(
    lambda x, kind, p: kind(x, p, True),
    floats(2, 3, 4),
    p=[0.0, 1.0],
    kind=[F.dropout, F.dropout1d, F.feature_alpha_dropout],
)


# --- NaN, and rows of nearly equal elements, of which the epsilon decides ---------------------------------------------


def _by_layers(x: torch.Tensor) -> object:
    return F.layer_norm(x, (6,), eps=0.01), F.rms_norm(x, (6,), eps=0.01)


def _by_groups(x: torch.Tensor) -> object:
    return F.group_norm(x, 2, eps=0.01), F.instance_norm(x, eps=0.01)


def _to_shares(x: torch.Tensor) -> object:
    return F.softmax(x, -1), F.log_softmax(x, -2), F.normalize(x, dim=-1, eps=0.5)


#: In the first and in later calls, in each dtype.
normalized_nan = op(
    lambda x, f: (f(x), f(x.flip(-1)), f(x * 0.01)),
    floats(2, 4, 6, special=(float("nan"), float("inf"))),
    f=[_by_layers, _to_shares],
    dtypes=FLOATS,
    dynamic=BATCH,
)
groups_with_nan = op(
    lambda x: (_by_groups(x), _by_groups(x.flip(-1)), _by_groups(x * 0.01)),
    floats(2, 4, 6, special=(float("nan"), float("inf"))),
    dtypes=FLOATS,
    dynamic=BATCH,
)
batch_norm_of_nan = op(
    nn.BatchNorm1d,
    floats(2, 4, 6, special=(float("nan"), float("inf"))),
    num_features=4,
    eps=[0.5],
    dtypes=FLOATS,
    dynamic=BATCH,
)
group_norm_of_no_elements = op(
    lambda x: F.group_norm(x.flip(-1), 2), floats(1, 4, 0), dtypes=[torch.float64], tier="full"
)
