"""Products that are written with the labels or the numbers of axes: einsum and tensordot."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import any_size_depends_on_values, instead_of


@instead_of(
    "aten::tensordot",
    where=any_size_depends_on_values,
    why="torch's own asks for a size that depends on values whether it is 0 or 1",
)
def tensordot(
    self: torch.Tensor, other: torch.Tensor, dims_self: Sequence[int], dims_other: Sequence[int]
) -> torch.Tensor:
    contracted = dict(
        zip((axis % other.ndim for axis in dims_other), (axis % self.ndim for axis in dims_self), strict=True)
    )
    own = [*range(self.ndim)]
    others = [contracted.get(axis, self.ndim + axis) for axis in range(other.ndim)]
    kept = [*(axis for axis in own if axis not in contracted.values()), *(axis for axis in others if axis >= self.ndim)]
    return torch.einsum(self, own, other, others, kept)


@instead_of("aten::einsum", why="torch reshapes the operands, where a product of matrices often suffices")
def einsum(equation: str, tensors: list[torch.Tensor], *, path: list[int] | None = None) -> Any:
    operands, arrow, out = _with_all_labels(equation, [x.ndim for x in tensors]).partition("->")
    terms = operands.split(",")
    if not arrow:
        out = "".join(label for label in sorted(operands) if operands.count(label) == 1 and label != ",")
    if len(tensors) != 2 or [len(term) for term in terms] != [x.ndim for x in tensors]:
        return NotImplemented
    if any(len(set(term)) < len(term) for term in (*terms, out)) or not set(out) <= set(operands):
        return NotImplemented
    (a, b), (x, y) = terms, tensors
    layout = _layout_of_einsum(_long_axes(a, x), _long_axes(b, y), out)
    if len(set(b) - set(a)) > 1:
        (a, b), (x, y) = (b, a), (y, x)
    batch = [label for label in a if label in b and label in out]
    summed = [label for label in a if label in b and label not in out]
    rows, columns = [label for label in a if label not in b], [label for label in b if label not in a]
    if len(columns) > 1 or len(summed) != 1 or not set(rows + columns) <= set(out):
        return NotImplemented
    lengths: tuple[Size, Size] = x.shape[a.index(summed[0])], y.shape[b.index(summed[0])]
    if (isinstance(lengths[0], int) and lengths[0] == 1) or not same_size(*lengths):
        return NotImplemented  # A size of 1 stands for any other, and torch multiplies where both are 1.
    matrices = _permuted(y, b, batch + summed + columns)
    if len(rows) > 1 and batch and list(a) == batch + rows + summed:
        # x stays as it is, and y is the same for all axes of rows but the last.
        result, order = x, batch + rows + columns
        for _ in rows[:-1]:
            matrices = matrices.unsqueeze(len(batch))
    else:
        # Those axes come first, so that those of y need not be repeated.
        result, order = _permuted(x, a, rows[:-1] + batch + rows[-1:] + summed), rows[:-1] + batch + rows[-1:] + columns
    result = result if rows or not batch else result.unsqueeze(-2)
    result = result @ (matrices if columns or not batch else matrices.unsqueeze(-1))
    if batch and not columns:
        result = result.squeeze(-1)
    if batch and not rows:
        result = result.squeeze(len(batch))
    if order != layout:
        result = _permuted(result, order, layout).contiguous()
    return _permuted(result, layout, out)


def _with_all_labels(equation: str, ranks: Sequence[int]) -> str:
    """An equation without spaces, in which the axes that `...` stands for have labels too."""
    equation = equation.replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if "..." not in equation or len(terms) != len(ranks):
        return equation
    counts = [rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term]
    unused = [label for label in string.ascii_letters if label not in equation]
    if len(set(counts)) != 1 or not 0 <= counts[0] <= len(unused):
        return equation
    if "->" not in equation:  # torch puts them first.
        letters = "".join(terms).replace(".", "")
        equation += "->..." + "".join(label for label in sorted(set(letters)) if letters.count(label) == 1)
    return equation.replace("...", "".join(unused[: counts[0]]))


def _long_axes(labels: str, x: torch.Tensor) -> set[str]:
    sizes: Sequence[Size] = x.shape
    return {label for label, size in zip(labels, sizes, strict=True) if not (isinstance(size, int) and size == 1)}


def _layout_of_einsum(a: set[str], b: set[str], out: str) -> list[str]:
    """The order in memory of the axes of torch's result, on which depends what is a view of it."""
    both = [label for label in out if label in a and label in b]
    rest = [label for label in out if label not in both]
    of_a, of_b = [label for label in rest if label in a], [label for label in rest if label not in a]
    return both + of_b + of_a if rest == of_b + of_a else both + of_a + of_b


def _permuted(x: torch.Tensor, labels: Sequence[str], order: Sequence[str]) -> torch.Tensor:
    axes = [labels.index(label) for label in order]
    return x if axes == sorted(axes) else x.permute(axes)
