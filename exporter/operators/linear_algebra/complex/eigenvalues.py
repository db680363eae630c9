"""Eigenvalues of matrices that are not symmetric, from Schur decompositions: `onnx_parity::schur`, `complex_schur`."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.operators.linear_algebra.complex.decompositions import solve_triangular
from onnx_parity.exporter.operators.linear_algebra.complex.products import matmul
from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["SCHUR"]

_aten = torch.ops.aten


def _shapes(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(a), torch.empty_like(a)


SCHUR = define("schur(Tensor a) -> (Tensor, Tensor)", _shapes)
COMPLEX_SCHUR = define("complex_schur(Tensor a) -> (Tensor, Tensor)", _shapes)


def _computed(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An orthonormal basis of the eigenvectors: of the real and the imaginary part of each pair that is complex."""
    values, vectors = torch.linalg.eig(a)
    z, _ = torch.linalg.qr(torch.where(values.imag.unsqueeze(-2) < 0, vectors.imag, vectors.real))
    return z.mT @ a @ z, z


def _computed_of_complex(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    whole = torch.complex(a[0], a[1])
    z, _ = torch.linalg.qr(torch.linalg.eig(whole)[1])
    t = z.mH @ whole @ z
    return torch.stack([t.real, t.imag]), torch.stack([z.real, z.imag])


run_by(SCHUR, _computed)
run_by(COMPLEX_SCHUR, _computed_of_complex)


@complex_of("aten::linalg_eig")
def linalg_eig(a: Operand) -> Any:
    if isinstance(a, Parts):
        return _of_complex(a)
    assert isinstance(a, torch.Tensor)
    if any(same_size(size, 0) for size in a.shape):
        nothing = torch.zeros_like(a)
        none = nothing.sum(-1)
        return Parts(none, none), Parts(nothing, nothing)
    t, z = SCHUR(a)
    blocks = _Blocks(t)
    values = blocks.values()
    return values, _normalized(_product(z, blocks.vectors(values)))


def _of_complex(a: Parts) -> tuple[Parts, Parts]:
    if any(same_size(size, 0) for size in a.real.shape):
        none = a.real.sum(-1)
        return Parts(none, none), a
    pair, turns = COMPLEX_SCHUR(torch.stack([a.real, a.imag], 0))
    t, z = (Parts(each.select(0, 0), each.select(0, 1)) for each in (pair, turns))
    values = Parts(*(part.diagonal(0, -2, -1) for part in t))
    return values, _normalized(parts_of(matmul(z, _vectors_of_triangle(t, values))))


def _vectors_of_triangle(t: Parts, values: Parts) -> Parts:
    """The eigenvectors of an upper triangle T, as columns: (T - value) @ x = 0, with 1 in the row of the value."""
    size = t.real.shape[-1]
    rows = torch.arange(size, device=t.real.device)
    is_own = rows.unsqueeze(-1) == rows
    is_above = rows < rows.unsqueeze(-1)
    unit = is_own.to(t.real)
    sides = Parts(torch.where(is_above, -t.real.mT, unit), torch.where(is_above, -t.imag.mT, 0))
    differences = [part.unsqueeze(-2) - part.unsqueeze(-1) for part in values]
    # Values that are equal make it singular, by which LAPACK's solution is perturbed too.
    info = torch.finfo(t.real.dtype)
    smallest = info.eps * torch.hypot(*t).amax((-2, -1)).unsqueeze(-1).unsqueeze(-1)
    is_close = torch.hypot(*differences) <= smallest
    heads = Parts(torch.where(is_close, smallest.clamp(min=info.tiny), differences[0]),
                  torch.where(is_close, 0, differences[1]))  # fmt: skip
    both = is_above.unsqueeze(-1) & is_above.unsqueeze(-2)
    others = [part.triu(1).unsqueeze(-3) for part in t]
    system = [torch.where(both, other + torch.diag_embed(head), 0) for other, head in zip(others, heads, strict=True)]
    kept = torch.where(is_above.unsqueeze(-1), 0, unit)
    whole = Parts(system[0] + kept, system[1])
    solution = solve_triangular(whole, Parts(*(part.unsqueeze(-1) for part in sides)), upper=True)
    return Parts(solution.real.squeeze(-1).mT, solution.imag.squeeze(-1).mT)


class _Blocks:
    """The blocks of 1 by 1 and 2 by 2 on the diagonal of T, for each row the one that it belongs to."""

    def __init__(self, t: torch.Tensor) -> None:
        self._t = t
        below, above = t.diagonal(-1, -2, -1), t.diagonal(1, -2, -1)
        own = t.diagonal(0, -2, -1)
        none = torch.zeros_like(own[..., :1])
        self.is_first = torch.cat([below, none], -1) != 0
        self.is_second = torch.cat([none, below], -1) != 0
        after, before = torch.cat([own[..., 1:], none], -1), torch.cat([none, own[..., :-1]], -1)
        # The elements [[a, b], [c, d]] of a block of 2 by 2.
        self.a = torch.where(self.is_second, before, own)
        self.b = torch.where(self.is_second, torch.cat([none, above], -1), torch.cat([above, none], -1))
        self.c = torch.where(self.is_second, torch.cat([none, below], -1), torch.cat([below, none], -1))
        self.d = torch.where(self.is_second, own, after)

    def values(self) -> Parts:
        """In the order of the rows; of a pair of complex ones the first has the positive imaginary part."""
        half = (self.a - self.d) / 2
        square = half * half + self.b * self.c
        root = square.abs().sqrt()
        far = half + torch.where(half < 0, -root, root)
        is_pair = self.is_first | self.is_second
        is_complex = is_pair & (square < 0)
        second = self.d - self.b * self.c / torch.where(far == 0, 1, far)
        of_reals = torch.where(self.is_first, self.d + far, second)
        real = torch.where(is_complex, (self.a + self.d) / 2, torch.where(is_pair, of_reals, self.a))
        return Parts(real, torch.where(is_complex, torch.where(self.is_first, root, -root), 0))

    def vectors(self, values: Parts) -> Parts:
        """The eigenvectors of T, as columns: within the block of each value, and above it by a system of equations."""
        size = self._t.shape[-1]
        rows = torch.arange(size, device=self._t.device)
        first = (rows - self.is_second.long()).unsqueeze(-1)
        # Of a block: [b, value - a] or [value - d, c], whichever is longer.
        is_wide = self.b.abs() >= self.c.abs()
        is_pair = self.is_first | self.is_second
        one = torch.where(is_pair, torch.where(is_wide, self.b, values.real - self.d), 1)
        other = torch.where(is_pair, torch.where(is_wide, values.real - self.a, self.c), 0)
        at_first, at_second = rows == first, rows == first + 1
        real = at_first * one.unsqueeze(-1) + at_second * other.unsqueeze(-1)
        is_other = torch.where(is_wide.unsqueeze(-1), at_second, at_first)
        imag = is_other * torch.where(is_pair, values.imag, 0).unsqueeze(-1)

        # (T - value) @ x = 0 in the rows above, of which the block's elements are known.
        t = self._t.unsqueeze(-3)
        is_above = rows < first
        unit = torch.eye(size, dtype=t.dtype, device=t.device)
        # Values that are equal make it singular, by which LAPACK's solution is perturbed too.
        smallest = torch.finfo(t.dtype).eps * t.abs().amax((-2, -1), keepdim=True)
        shifted = t - (values.real.unsqueeze(-1).unsqueeze(-1) - smallest) * unit
        both = is_above.unsqueeze(-1) & is_above.unsqueeze(-2)
        kept = torch.where(both, shifted, unit)
        turned = torch.where(both, -values.imag.unsqueeze(-1).unsqueeze(-1) * unit, 0)
        system = torch.cat([torch.cat([kept, -turned], -1), torch.cat([turned, kept], -1)], -2)
        sides = [torch.where(is_above, -(t @ part.unsqueeze(-1)).squeeze(-1), part) for part in (real, imag)]
        solution = torch.linalg.solve(system, torch.cat(sides, -1).unsqueeze(-1)).squeeze(-1)
        return Parts(solution[..., :size].mT, solution[..., size:].mT)


def _product(z: torch.Tensor, x: Parts) -> Parts:
    return Parts(z @ x.real, z @ x.imag)


def _normalized(x: Parts) -> Parts:
    """Of length 1, with the largest element real, as LAPACK does."""
    squares = x.real.square() + x.imag.square()
    length = squares.sum(-2, keepdim=True).sqrt()
    place = squares.argmax(-2, keepdim=True)
    real, imag = x.real.gather(-2, place), x.imag.gather(-2, place)
    size = (real.square() + imag.square()).sqrt()
    is_real = imag == 0
    cosine, sine = torch.where(is_real, 1, real / size), torch.where(is_real, 0, imag / size)
    return Parts((x.real * cosine + x.imag * sine) / length, (x.imag * cosine - x.real * sine) / length)
