"""The page of charts: for each axis the time and the memory by size, both logarithmic, so that what is linear is a line
that rises as the dashed one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Curve", "draw_page", "spelled"]

#: From a value to its place in the chart.
_Scale = Callable[[float], float]

#: The size of a chart, and its margins: left, top, right and bottom.
_WIDTH, _HEIGHT = 400, 250
_LEFT, _TOP, _RIGHT, _BOTTOM = 62, 14, 14, 30
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_STYLE = """\
:root { --paper: #fdfdfc; --ink: #1b1d1c; --soft: #63686a; --line: #e3e3de; --curve: #1f5c8c; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #141716; --ink: #e4e7e4; --soft: #979e9b; --line: #2c3230; --curve: #84bde8; }
}
body { margin: 2rem auto; max-width: 56rem; padding-inline: 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 "Inter", -apple-system, "Segoe UI", "Noto Sans", "Helvetica Neue", Arial, sans-serif; }
figure { display: inline-block; margin: 0 1.5rem 1rem 0; }
figcaption, p { color: var(--soft); }
text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); }
.curve { fill: none; stroke: var(--curve); stroke-width: 2; }
.linear { stroke: var(--soft); stroke-dasharray: 4 4; }
circle { fill: var(--curve); }
"""


@dataclass(frozen=True)
class Curve:
    """What one quantity is at each size."""

    title: str
    unit: str
    sizes: Sequence[float]
    values: Sequence[float]


def draw_page(sections: Sequence[tuple[str, str, Sequence[Curve]]], about: str) -> str:
    """The page: for each axis its name, what was found, and its curves."""
    body = "".join(
        f"<h2>{escape(name)}</h2><p>{escape(found)}</p>{''.join(map(_draw, curves))}\n"
        for name, found, curves in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>How cost grows</title>'
        f"<style>{_STYLE}</style>\n<h1>How cost grows</h1>\n<p>{escape(about)} Both scales are logarithmic; the dashed "
        f"line is what grows as the size does.</p>\n{body}</html>\n"
    )


def _draw(curve: Curve) -> str:
    # A logarithm of nothing is none.
    values = [max(value, 1e-3) for value in curve.values]
    across, up = _decades(curve.sizes), _decades(values)

    def x(size: float) -> float:
        share = (math.log10(size) - across[0]) / (across[-1] - across[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        share = (math.log10(value) - up[0]) / (up[-1] - up[0])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    points = [(x(size), y(value)) for size, value in zip(curve.sizes, values, strict=True)]
    path = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
    title = f"{curve.title} by size"
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(_grid(across, up, x, y, curve.unit))}{_linear(curve.sizes, values, up, x, y)}"
        f'<polyline class="curve" points="{path}"/>'
        + "".join(
            f'<circle cx="{at:.1f}" cy="{height:.1f}" r="3.5"><title>{spelled(size)}: {spelled(value)} {curve.unit}'
            "</title></circle>"
            for (at, height), size, value in zip(points, curve.sizes, curve.values, strict=True)
        )
        + f"</svg><figcaption>{escape(curve.title)}</figcaption></figure>"
    )


def _decades(values: Sequence[float]) -> range:
    """The exponents of the powers of ten that values lie between: two at least."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return range(low, max(high, low + 1) + 1)


def _grid(across: range, up: range, x: _Scale, y: _Scale, unit: str) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for exponent in across:
        at = x(10.0**exponent)
        yield f'<path class="grid" d="M{at:.1f} {_TOP}V{bottom}"/>'
        yield f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{spelled(10.0**exponent)}</text>'
    for exponent in up:
        height = y(10.0**exponent)
        yield f'<path class="grid" d="M{_LEFT} {height:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{spelled(10.0**exponent)} {unit}</text>'


def _linear(sizes: Sequence[float], values: Sequence[float], up: range, x: _Scale, y: _Scale) -> str:
    """The dashed line through the last value, down to the bottom of the chart."""
    lowest = max(sizes[0], sizes[-1] * 10.0 ** up[0] / values[-1])
    start = (x(lowest), y(values[-1] * lowest / sizes[-1]))
    end = (x(sizes[-1]), y(values[-1]))
    return f'<path class="linear" d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'


def spelled(number: float) -> str:
    """1500000 as `1.5 M`."""
    for least, suffix in _SUFFIXES:
        if number >= least:
            return f"{number / least:.3g} {suffix}"
    return f"{number:.3g}"
