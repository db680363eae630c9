"""The roots of unity, by which Fourier transforms multiply."""

from __future__ import annotations

import math

import pytest
import torch

from onnx_parity.exporter.lowering.values.roots_of_unity import roots_of_unity


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 12, 24, 1000])
def test_they_are_cosines_and_sines(count: int) -> None:
    powers = torch.arange(-count, 2 * count)
    cos, sin = roots_of_unity(powers, count)
    angles = 2 * math.pi / count * (powers % count).double()
    torch.testing.assert_close(cos, angles.cos(), rtol=0, atol=1e-15)
    torch.testing.assert_close(sin, angles.sin(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("count", [2, 4, 6, 8, 12, 100])
def test_they_are_exactly_symmetric(count: int) -> None:
    powers = torch.arange(count)
    cos, sin = roots_of_unity(powers, count)
    opposite = roots_of_unity(powers + count // 2, count)
    assert torch.equal(opposite[0], -cos)
    assert torch.equal(opposite[1], -sin)


def test_those_that_are_fractions() -> None:
    cos, sin = roots_of_unity(torch.arange(12), 12)
    assert cos[[0, 2, 3, 4, 6]].tolist() == [1.0, 0.5, 0.0, -0.5, -1.0]
    assert sin[[0, 1, 3, 6, 9]].tolist() == [0.0, 0.5, 1.0, 0.0, -1.0]
    assert not torch.cat([cos, sin]).signbit()[torch.cat([cos, sin]) == 0].any(), "no zero is negative"


def test_no_points() -> None:
    assert [each.shape for each in roots_of_unity(torch.zeros(0, 0), 0)] == [(0, 0), (0, 0)]
