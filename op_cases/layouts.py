"""Inputs that do not lie in memory as contiguous tensors do, and programs that depend on how their tensors lie."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import Keywords, floats, op, scripted

_IMAGES = floats(2, 3, 4, 5)
#: The example lies in each layout; the model has that of the example at any size that is assumed.
_LAID: Keywords = {
    "x": [_IMAGES.laid(each) for each in ("channels_last", "transposed", "sliced")],
    "dynamic": {"x": {2: "height", 3: "width"}},
    "sizes": {"height": [2, 6, 3], "width": [2, 3, 7]},
    "without_nan": "the copy that has a NaN does not lie as the input does",
}


def written_through_flatten(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.flatten().mul_(2)
    return y


def written_through_contiguous(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.contiguous().add_(1)
    return y


def written_through_channels_last(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.to(memory_format=torch.channels_last).add_(1)
    return y


def padded_and_written(x: torch.Tensor) -> torch.Tensor:
    y = F.pad(x * 1, (1, 1))
    y.reshape(-1).mul_(2)
    return y


def stacked_and_written(x: torch.Tensor) -> torch.Tensor:
    y = torch.stack([x, x * 2], 1)[:, 0].relu()
    flat = y.flatten(1)
    y.mul_(3)
    return y + flat.sum()


def convolved_after_a_write(x: torch.Tensor) -> torch.Tensor:
    """The write is through a view whose strides do not tell how the axis of one channel lies."""
    y = x[:, :1] + 0
    y.permute(0, 2, 3, 1).reshape(-1, 1).add_(1)
    y = F.conv2d(torch.stack([y, y], -1)[..., 0], y.new_ones(2, 1, 1, 1))
    y.permute(0, 2, 3, 1).flatten().zero_()
    return y


def scaled_by_strides(x: torch.Tensor) -> torch.Tensor:
    return x * x.stride(1) + (x * 2).stride(-1)


def branched(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous() else x * 3


def flattened(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) * 2


def branched_behind_a_view(x: torch.Tensor) -> torch.Tensor:
    first = (x * 1)[:, :1].view(-1, 1)
    return first * 2 if first.is_contiguous() else first


def repeated(x: torch.Tensor) -> torch.Tensor:
    """A copy, or a view that repeats one column."""
    return (x * 1)[:, None].expand(-1, 2, -1).flatten(1)


@scripted
def doubled_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous() else x


@scripted
def doubled_if_its_columns_are(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.t().is_contiguous() else x


@scripted
def doubled_if_channels_are_last(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.t()[None, None].is_contiguous(memory_format=torch.channels_last) else x


@scripted
def multiplied_by_strides(x: torch.Tensor) -> torch.Tensor:
    return x * x.stride(0) + x.t().stride()[1]


@scripted
def written_with_channels_last(x: torch.Tensor) -> torch.Tensor:
    x[None].contiguous(memory_format=torch.channels_last).zero_()
    return x


def repeated_in_a_script(x: torch.Tensor) -> object:
    return doubled_if_contiguous(repeated(x))


def columns_in_a_script(x: torch.Tensor) -> object:
    return doubled_if_its_columns_are(repeated(x))


def channels_in_a_script(x: torch.Tensor) -> object:
    return doubled_if_channels_are_last(repeated(x))


def strides_in_a_script(x: torch.Tensor) -> object:
    return multiplied_by_strides(repeated(x))


def written_in_a_script(x: torch.Tensor) -> object:
    return written_with_channels_last(x * 1)


writes_through_flatten = op(written_through_flatten, **_LAID)
writes_through_contiguous = op(written_through_contiguous, **_LAID)
writes_through_channels_last = op(written_through_channels_last, **_LAID)
writes_after_padding = op(padded_and_written, **_LAID)
writes_after_stacking = op(stacked_and_written, **_LAID)
kernels_after_writes = op(convolved_after_a_write, _IMAGES, dynamic=_LAID["dynamic"], sizes=_LAID["sizes"])
strides_of_inputs = op(scaled_by_strides, **_LAID)
questions_about_layouts = op(branched, **_LAID)
questions_behind_views = op(branched_behind_a_view, floats(3, 2), dynamic={"x": {0: "rows", 1: "columns"}})
#: The models assume that there are more columns than one.
_MATRIX: Keywords = {
    "x": floats(3, 2), "dynamic": {"x": {0: "rows", 1: "columns"}},
    "sizes": {"rows": [1, 4, 1, 0], "columns": [2, 3, 5, 2]},
}  # fmt: skip
script_asks_of_repeated = op(repeated_in_a_script, **_MATRIX)
script_asks_of_columns = op(columns_in_a_script, **_MATRIX)
script_asks_of_channels = op(channels_in_a_script, **_MATRIX)
script_asks_for_strides = op(strides_in_a_script, **_MATRIX)
script_writes_with_channels_last = op(
    written_in_a_script, floats(2, 3, 4), dynamic={"x": {0: "channels", 1: "height", 2: "width"}},
    sizes={"channels": [2, 3, 7], "height": [1, 4, 2], "width": [2, 3, 5]},
)  # fmt: skip
any_layout = op(flattened, **_LAID)
expanded = op(
    flattened, floats(3, 4, 5).laid("expanded"), dynamic={"x": {0: "batch"}},
    without_nan="its elements are one in memory",
)  # fmt: skip
