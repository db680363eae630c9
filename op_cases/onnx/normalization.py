"""Normalisations, and Dropout, which scales what it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import Array, Distribution, call, definition, drawn, node

# --- by statistics that are given, or those of the batch --------------------------------------------------------------


@definition
def batch_normalized(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float, momentum: float,
    training_mode: int = 0, spatial: int = 1,
) -> Array | tuple[Array, Array, Array]:  # fmt: skip
    """Before version 9 there may be statistics for each element of an image, not only for each channel."""
    shape = (1, -1, *[1] * (x.ndim - 2)) if spatial else (1, *x.shape[1:])
    axes = (0, *range(2, x.ndim))
    used = (x.mean(axes), x.var(axes)) if training_mode else (mean, variance)
    made: Array = (x - used[0].reshape(shape)) / np.sqrt(used[1].reshape(shape) + epsilon)
    made = made * scale.reshape(shape) + bias.reshape(shape)
    if not training_mode:
        return made
    running = [old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), used, strict=True)]
    return made, *running


_VARIANCES = drawn((3,), 0.5, 2.0)
batch_normalization = node(
    "BatchNormalization",
    batch_normalized,
    call((2, 3, 2, 2), (3,), (3,), (3,), _VARIANCES),
    call((2, 3, 2, 2), (3,), (3,), (3,), _VARIANCES, epsilon=0.1),
    call((2, 3), (3,), (3,), (3,), _VARIANCES),
    call((2, 3, 4), (3,), (3,), (3,), _VARIANCES),
    call((2, 3, 4), (3, 4), (3, 4), (3, 4), drawn((3, 4), 0.5, 2.0), spatial=0),
    call((0, 3, 2), (3,), (3,), (3,), _VARIANCES),
    call((2, 3, 2, 2), (3,), (3,), (3,), _VARIANCES, training_mode=1, outputs=[0, 1, 2]),
    call((2, 3, 2), (3,), (3,), (3,), _VARIANCES, training_mode=1, momentum=0.5),
)


@definition
def batch_normalized_in_training(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float,
    momentum: float,
    **spatial: int,
) -> tuple[Array, ...]:
    """Of channels without variance: before version 14, it was not said how that of a sample is estimated."""
    del spatial
    axes, shape = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    current, spread = x.mean(axes), x.var(axes)
    made = (x - current.reshape(shape)) / np.sqrt(spread.reshape(shape) + epsilon) * scale.reshape(
        shape
    ) + bias.reshape(shape)
    return made, mean * momentum + current * (1 - momentum), variance * momentum, current, spread


batch_normalization_in_training = node(
    "BatchNormalization",
    batch_normalized_in_training,
    *(
        call(drawn((2, 3, 1), values=(1.0, 2.0, 4.0)), (3,), (3,), (3,), _VARIANCES, momentum=each, outputs=range(5))
        for each in (None, 0.5)
    ),
    before=14,
)

# --- by statistics of axes --------------------------------------------------------------------------------------------


@definition
def instance_normalized(x: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    axes, shape = tuple(range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    centred = x - x.mean(axes, keepdims=True)
    made: Array = centred / np.sqrt(x.var(axes, keepdims=True) + epsilon) * scale.reshape(shape) + bias.reshape(shape)
    return made


instance_normalization = node(
    "InstanceNormalization",
    instance_normalized,
    call((2, 3, 4, 4), (3,), (3,)),
    call((2, 3, 4), (3,), (3,), epsilon=0.1),
    call((1, 2, 2, 2, 2), (2,), (2,)),
    call((1, 1, 2), (1,), (1,)),
    call((0, 2, 3), (2,), (2,)),
)


@definition
def layer_normalized(
    x: Array, scale: Array, bias: Array | None = None, *, axis: int, epsilon: float, stash_type: int
) -> tuple[Array, Array, Array]:
    """The mean and the inverse of the deviation have the type of the computation."""
    del stash_type
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(x.var(axes, keepdims=True) + epsilon)
    made = (x - mean) * inverse * scale
    return (made if bias is None else made + bias), mean, inverse


#: The specification computes in float32, for doubles too.
_IN_FLOAT = 2e-5
layer_normalization = node(
    "LayerNormalization",
    layer_normalized,
    call((2, 3, 4), (4,), (4,), outputs=[0, 1, 2]),
    call((2, 3, 4), (4,), outputs=[0, 1, 2]),
    call((2, 3, 4), (3, 4), (3, 4), axis=1, outputs=[0, 1, 2]),
    call((2, 3, 4), (4,), (4,), epsilon=0.1, outputs=[0]),
    call((2, 3, 4), (2, 3, 4), axis=-3, outputs=[0, 2]),
    call((0, 4), (4,), (4,)),
    call((2, 1), (1,)),
    usual={"U": "float"},
    rounded_by=_IN_FLOAT,
)
layer_normalization_in_bfloat16 = node(
    "LayerNormalization",
    layer_normalized,
    call((2, 3, 4), (4,), (4,), stash_type=16, outputs=[0]),
    where=lambda types: types["T"] == "tensor(bfloat16)",
)


@definition
def group_normalized(
    x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float, stash_type: int = 1
) -> Array:
    """Before version 21, scale and bias were those of the groups; since then, those of the channels."""
    del stash_type
    groups = x.reshape(x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups)
    made = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + epsilon)
    if len(scale) == num_groups != x.shape[1]:
        return np.asarray(made * scale[:, None] + bias[:, None]).reshape(x.shape)
    shape = (1, -1, *[1] * (x.ndim - 2))
    scaled: Array = made.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)
    return scaled


group_normalization_18 = node(
    "GroupNormalization",
    group_normalized,
    call((2, 4, 3), (2,), (2,), num_groups=2),
    call((2, 4, 2, 2), (2,), (2,), num_groups=2, epsilon=0.1),
    before=21,
)
group_normalization = node(
    "GroupNormalization",
    group_normalized,
    call((2, 4, 3), (4,), (4,), num_groups=2),
    call((0, 4, 3), (4,), (4,), num_groups=2),
    call((2, 4, 2, 2), (4,), (4,), num_groups=2, epsilon=0.1),
    call((1, 3, 2), (3,), (3,), num_groups=1),
    call((1, 2, 3), (2,), (2,), num_groups=2, stash_type=1),
    since=21,
    rounded_by=_IN_FLOAT,
)


@definition
def divided_by_root_of_squares(x: Array, scale: Array, *, axis: int, epsilon: float, stash_type: int) -> Array:
    del stash_type
    axes = tuple(range(axis % x.ndim, x.ndim))
    made: Array = x / np.sqrt(np.square(x).mean(axes, keepdims=True) + epsilon) * scale
    return made


rms_normalization = node(
    "RMSNormalization",
    divided_by_root_of_squares,
    call((2, 3, 4), (4,)),
    call((2, 3, 4), (3, 4), axis=1),
    call((2, 3, 4), (4,), epsilon=0.1),
    call((2, 3, 4), (1,), stash_type=1),
    call((0, 4), (4,)),
    rounded_by=_IN_FLOAT,
)


@definition
def without_mean_and_variance(x: Array, axes: Sequence[int]) -> Array:
    """The constant that keeps the deviation from 0 is 1e-9, as in the function of the specification."""
    centred = x - x.mean(tuple(axes), keepdims=True)
    made: Array = centred / (np.sqrt(np.square(centred).mean(tuple(axes), keepdims=True)) + 1e-9)
    return made


mean_variance_normalization = node(
    "MeanVarianceNormalization",
    without_mean_and_variance,
    call((2, 2, 3, 2)),
    call((2, 2, 3, 2), axes=[2, 3]),
    call((2, 0, 3, 2)),
    call((1, 2, 3, 2)),
    call((3, 3), axes=[0]),
)


@definition
def divided_by_norm(x: Array, axis: int, p: int) -> Array:
    """Where the norm is 0, so is the result."""
    norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0.0, x / np.where(norm == 0, 1.0, norm))


lp_normalization = node(
    "LpNormalization",
    divided_by_norm,
    call((2, 3)),
    call((2, 3), p=1),
    call((2, 3, 2), axis=1),
    call([[3.0, 4.0], [0.0, 0.0]]),
    call((0, 3)),
    call((2, 1)),
)


def locally_normalized(x: torch.Tensor, *, alpha: float, beta: float, bias: float, size: int) -> torch.Tensor:
    """An even size has one more channel after than before, as the specification has it and torch has not."""
    before = (size - 1) // 2
    squares = F.pad(x.square().transpose(1, -1), [before, size - 1 - before])
    sums = squares.unfold(-1, size, 1).sum(-1).transpose(1, -1)
    return x / (bias + alpha / size * sums) ** beta


lrn = node(
    "LRN",
    locally_normalized,
    call((1, 5, 2, 2), size=3),
    call((1, 5, 2, 2), size=2, alpha=0.5, beta=0.5, bias=2.0),
    call((2, 3, 2), size=5, alpha=1.0),
    call((1, 1, 1, 1), size=1),
    call((0, 3, 2, 2), size=3),
)

# --- Dropout ----------------------------------------------------------------------------------------------------------


@definition
def kept(x: Array, *inputs: Any, **settings: Any) -> tuple[Array, Array]:
    """Where nothing is dropped, all elements are kept."""
    del inputs, settings
    return x, np.ones(x.shape, bool)


_UNTRAINED = (call((2, 3)), call((2, 3), ratio=0.75), call((), outputs=[0]), call((1,), outputs=[0]),
              call((0, 3), outputs=[0]))  # fmt: skip
#: What the mask is where nothing is dropped was not said before version 12.
dropout_7 = node(
    "Dropout", kept, *(call(*each.given, outputs=[0], **each.named) for each in _UNTRAINED), before=12, exact=True
)
dropout = node(
    "Dropout",
    kept,
    *_UNTRAINED,
    call((2, 3), ratio=0.0, training_mode=True, outputs=[0, 1]),
    call((2, 3), training_mode=False, seed=7),
    usual={"T1": "float"},
    since=12,
    exact=True,
)


@definition
def dropped(
    x: Array, ratio: Any = 0.5, training_mode: Any = True, **settings: Any
) -> tuple[Distribution, Distribution]:
    """Of ones: 0 where they are dropped, and the same mean as before in all."""
    del settings, training_mode
    share = 1 - float(ratio)
    deviation = float(np.sqrt(share * (1 - share)))
    highest = 1.05 / share
    return (Distribution(x.shape, 0.0, highest, 1.0, deviation / share),
            Distribution(x.shape, 0.0, 1.0, share, deviation))  # fmt: skip


_ONES = drawn((40, 50), values=(1.0,))
dropout_in_training = node(
    "Dropout",
    dropped,
    call(_ONES, training_mode=True),
    call(_ONES, ratio=0.25, training_mode=True, seed=3),
    usual={"T1": "float"},
    since=12,
    where=lambda types: "float8" not in types["T"],
)
