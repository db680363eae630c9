"""`python -m benchmarks.growth` measures how time and memory grow along each axis, and draws them as a page."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

import onnx_parity
from benchmarks.growth.axes import AXES, Axis, Taken, measured
from benchmarks.growth.chart import Curve, draw_page, spelled

#: Cost that grows with the size to this power at most is linear, with what measurements scatter.
LINEAR = 1.15
#: What takes less than this many seconds, or bytes, is mostly what every size takes.
_ENOUGH = Taken(seconds=0.3, memory=32 << 20)


def power(sizes: Sequence[float], values: Sequence[float], enough: float) -> float | None:
    """With which power of the size values grow, between the last two; None where these are too small to tell."""
    if len(sizes) < 2 or values[-1] < enough or values[-2] <= 0:
        return None
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def found(axis: Axis, what: str, grown: float | None) -> tuple[str, bool]:
    """What is said of the growth of a quantity, and whether it may grow so."""
    if grown is None:
        return f"{what}: little at every size", True
    if grown < LINEAR - 1:
        return f"{what}: the same at every size", True
    verdict = "less than linear" if grown < 2 - LINEAR else "linear" if grown <= LINEAR else "more than linear"
    return f"{what}: {verdict} (power {grown:.2f})", grown <= LINEAR and not axis.is_constant


def main(
    page: Annotated[Path, typer.Option(help="The page of charts to write.")] = Path("growth.html"),
    only: Annotated[list[str] | None, typer.Option(help="Measure only the axis with this name.")] = None,
    *,
    large: Annotated[
        bool, typer.Option("--large", help="Measure the largest sizes too, which takes an hour and much memory.")
    ] = False,
) -> None:
    """Measure processor time and memory over nodes, inputs, weights, records and workers, and draw a chart of each.

    Exits with 1 if something grows more than linearly.
    """
    names = [axis.name for axis in AXES]
    if unknown := sorted(set(only or ()).difference(names)):
        raise typer.BadParameter(f"{unknown[0]!r} is none of them: {', '.join(names)}", param_hint="--only")
    torch.set_num_threads(1)
    # What the first export imports is no cost of a size.
    onnx_parity.export(torch.nn.ReLU(), (torch.ones(2),))
    sections, holds = [], True
    for axis in AXES:
        if only and axis.name not in only:
            continue
        sizes = (*axis.sizes, *axis.large) if large else axis.sizes
        taken = []
        for size in sizes:
            taken.append(measured(axis, size))
            print(
                f"{spelled(size):>8} {axis.name:17}{taken[-1].seconds:9.2f} s{taken[-1].memory / 1e6:10.1f} MB",
                flush=True,
            )
        seconds, memory = [each.seconds for each in taken], [float(each.memory) for each in taken]
        said = [
            found(axis, "time", power(sizes, seconds, _ENOUGH.seconds)),
            found(axis, "memory", power(sizes, memory, _ENOUGH.memory)),
        ]
        holds &= all(may for _, may in said)
        told = f"{axis.what}; {'; '.join(text for text, _ in said)}"
        print(f"  {told}")
        curves = [Curve("processor time", "s", sizes, seconds), Curve("memory", "B", sizes, memory)]
        sections.append((axis.name, f"{told}.", curves))
    about = f"torch {torch.__version__}, {platform.system()} {platform.machine()}, {os.cpu_count()} processors."
    page.write_text(draw_page(sections, about), encoding="utf-8")
    print(f"charts: {page}")
    raise typer.Exit(0 if holds else 1)


if __name__ == "__main__":
    typer.run(main)
