"""Padding: constant, by reflection, by replication, circular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.opsets.padding import PadMode
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole
from onnx_parity.exporter.registry.results import Contiguous, result_of
from onnx_parity.exporter.sizes.defined_where import defined_where


@lowering("aten::constant_pad_nd")
def constant_pad_nd(g: Graph, self: Value, pad: list[Size], value: float = 0) -> Value:
    return g.pad(self, *_ends(self, pad), value=value)


@lowering(
    "aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d",
    "aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d",
)  # fmt: skip
def mirrored_pad(g: Graph, self: Value, padding: list[Size]) -> Value:
    mode: PadMode = "reflect" if "reflection" in g.operator else "edge"
    return g.pad(self, *_ends(self, padding), mode=mode)


keep_whole("aten::_pad_circular", why="torch copies each part into new memory; ONNX has Pad and Concat")


@instead_of("aten::_pad_circular", why="torch pads more than cropping leaves with what it has not written")
def circularly_padded(x: torch.Tensor, pad: list[Size]) -> Any:
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), start=1):
        cropped = torch.sym_min(before, 0) + torch.sym_min(after, 0)
        if isinstance(cropped, int) and cropped:
            defined_where(
                x.shape[-axis] + cropped >= torch.sym_max(before, after),
                "a circular padding of what was cropped has elements that PyTorch does not write",
            )
    return NotImplemented


@lowering("aten::_pad_circular")
def circular_pad(g: Graph, self: Value, pad: list[Size]) -> Value:
    return g.pad(self, *_ends(self, pad), mode="wrap")


def _ends(x: Value, pad: list[Size]) -> tuple[list[Size], list[Size]]:
    """The amounts before and after each axis; torch lists (before, after) pairs, the last axis first."""
    before: list[Size] = [0] * x.rank
    after: list[Size] = [0] * x.rank
    for number in range(len(pad) // 2):
        before[-1 - number] = pad[2 * number]
        after[-1 - number] = pad[2 * number + 1]
    return before, after


# --- results ----------------------------------------------------------------------------------------------------------


@result_of(
    "aten::constant_pad_nd",
    why="torch 2.13's fake kernel takes its sizes from the example, and fails on negative numbers",
    static=False,
)
def padded(self: torch.Tensor, pad: Sequence[Size], value: float = 0) -> Contiguous:
    sizes: list[Size] = list(self.shape)
    for number, amount in enumerate(pad):
        sizes[-1 - number // 2] += amount
    return Contiguous(self.dtype, tuple(sizes))
