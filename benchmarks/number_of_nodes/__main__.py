"""`python -m benchmarks.number_of_nodes` exports programs of more and more parts. The cost of each must not grow."""

from __future__ import annotations

import time
import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from torch import nn

import onnx_parity
from benchmarks.number_of_nodes.programs import KINDS
from benchmarks.options import search

#: How many times the processor time per part may be at the largest number what it is at the smallest.
MAXIMUM_GROWTH = 2.0


def processor_seconds(kind: str, number: int, *, is_dynamic: bool) -> float:
    """The processor time of one export."""
    program = KINDS[kind](number)
    function = program.function.eval() if isinstance(program.function, nn.Module) else program.function
    names = [f"x{place}" for place in range(len(program.args))]
    axes = {name: {0: "rows"} for name in names} if is_dynamic else None
    start = time.process_time()
    onnx_parity.export(function, program.args, input_names=names, dynamic_axes=axes)
    return time.process_time() - start


def main(
    numbers: Annotated[str, typer.Option(help="How many parts each program has, with commas between.")] = (
        "10,100,1000,3000"
    ),
    kinds: Annotated[str, typer.Option(help="A regular expression for the names of the kinds.")] = "",
    *,
    dynamic: Annotated[bool, typer.Option(help="Make the first axis of each input dynamic.")] = False,
) -> None:
    """Measure the processor time of exports by the number of a program's parts: steps, writes, inputs, weights.

    Exits with 1 if a part costs more than twice as much at the largest number as at the one before it.

    `--numbers 1000,10000,100000 --kinds loop` takes some minutes.
    """
    warnings.simplefilter("ignore")
    sizes = [int(each) for each in numbers.split(",")]
    table = Table("kind", *(f"{size:,}" for size in sizes), "per part")
    is_kept = True
    for kind in search("--kinds", kinds, KINDS):
        processor_seconds(kind, 5, is_dynamic=dynamic)  # The first export imports what it needs.
        seconds = [processor_seconds(kind, size, is_dynamic=dynamic) for size in sizes]
        per_part = [each / size for each, size in zip(seconds, sizes, strict=True)]
        if len(sizes) > 1:
            is_kept &= per_part[-1] <= MAXIMUM_GROWTH * per_part[-2]
        table.add_row(kind, *(f"{each:.2f} s" for each in seconds), f"{per_part[-1] * 1000:.2f} ms")
    Console(width=120).print(table)
    raise typer.Exit(0 if is_kept else 1)


if __name__ == "__main__":
    typer.run(main)
