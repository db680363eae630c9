"""What is recorded for pooling: in one dimension whole, over all of an image means, of windows at random places."""

from __future__ import annotations

import itertools
from typing import Any, cast

import torch

from onnx_parity.exporter.dispatch.gradients import is_seen_once
from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, decomposition_of, instead_of, keep_whole
from onnx_parity.exporter.sizes.layouts import suggested_format

_aten = torch.ops.aten

keep_whole(
    "aten::max_pool1d",
    "aten::avg_pool1d",
    why="torch pools in two dimensions, between two reshapes; ONNX pools in one dimension",
)


@instead_of("aten::max_pool1d", where=any_size_is_dynamic, why="where autograd sees it, torch's takes plain sizes only")
def max_pool1d(
    x: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    if is_seen_once((x,)):
        return NotImplemented
    windows = ([1, *kernel_size], [1, *(stride or kernel_size)], [0, *padding], [1, *dilation])
    return torch.max_pool2d(x.unsqueeze(-2), *windows, ceil_mode).squeeze(-2)


_LAYS_OUT_ANEW = "for images with channels last in memory, torch's decomposition rearranges the means with as_strided"


@instead_of("aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", why=_LAYS_OUT_ANEW)
def adaptive_avg_pool(x: torch.Tensor, sizes: list[Size]) -> Any:
    if any(not same_size(size, 1) for size in sizes):
        return NotImplemented
    means = x.mean([-1 - axis for axis in range(len(sizes))], True)
    return (
        means.clone(memory_format=layout) if (layout := suggested_format(x)) is not torch.contiguous_format else means
    )


# --- if it has no lowering --------------------------------------------------------------------------------------------


@decomposition_of("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(
    self: torch.Tensor, kernel_size: list[int], output_size: list[int], random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements of every window are gathered axis by axis; a window begins where its random sample says"""
    rank = len(output_size)
    batch, sizes = self.shape[:-rank], self.shape[-rank:]
    # There may be samples for more images than the input has; without a batch there is one.
    samples = random_samples.narrow(0, 0, batch[0] if len(batch) > 1 else 1).reshape([*batch, rank])
    values = self
    places: list[torch.Tensor] = []
    for number, (kernel, count, size) in enumerate(zip(kernel_size, output_size, sizes, strict=True)):
        # The samples of two axes are in the order of the axes in memory, those of three as the axes are.
        sample = samples[..., rank - 1 - number if rank == 2 else number]
        within = torch.arange(kernel, device=sample.device)
        taken = (_starts(sample, size, count, kernel).unsqueeze(-1) + within).flatten(-2)
        shape = [*batch, *[1] * number, count * kernel, *[1] * (rank - number - 1)]
        places.append(taken.reshape(shape))
        wide = [*batch, *values.shape[-rank:]]
        wide[len(batch) + number] = count * kernel
        values = values.gather(len(batch) + number, places[-1].expand(wide))
    index = places[0]
    for place, size in zip(places[1:], sizes[1:], strict=True):
        index = index * size + place
    split = [*batch, *itertools.chain.from_iterable(zip(output_size, kernel_size, strict=True))]
    before = len(batch)
    order = [*range(before), *range(before, before + 2 * rank, 2), *range(before + 1, before + 2 * rank, 2)]
    windows, indices = (each.reshape(split).permute(order).flatten(-rank) for each in (values, index.expand_as(values)))
    largest, first = windows.max(-1, keepdim=True)
    # Of several NaN the last is found.
    last_nan = torch.where(windows.isnan(), torch.arange(windows.shape[-1], device=windows.device), -1).amax(-1, True)
    return largest.squeeze(-1), indices.gather(-1, torch.where(last_nan < 0, first, last_nan)).squeeze(-1)


def _starts(sample: torch.Tensor, size: Size, count: int, kernel: int) -> torch.Tensor:
    """Where the windows begin: evenly spaced from a random place on, and the last at the end"""
    last = torch.full([*sample.shape, 1], cast("int", size) - kernel, dtype=torch.int64, device=sample.device)
    if count == 1:
        return last
    spacing = (size - kernel) / (count - 1)
    steps = torch.arange(count - 1, device=sample.device).to(sample.dtype)
    shifted = ((steps + sample.unsqueeze(-1)) * spacing).to(torch.int64)
    starts = shifted - (sample.unsqueeze(-1) * spacing).to(torch.int64)
    return torch.cat([starts, last], -1)
