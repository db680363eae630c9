"""Whether `parity range` finds values that float16 cannot hold, and no others: `python -m benchmarks.halves`."""

from __future__ import annotations

import inspect
from typing import Annotated

import onnx_ir as ir
import torch
import typer
from rich.console import Console
from rich.table import Table

import onnx_parity
from benchmarks.halves.planted import PLANTED, Program
from onnx_parity.harness.halves.finding import Ranges, find_ranges
from onnx_parity.harness.halves.ranges import Fit

__all__ = ["planted_line", "ranges", "sample"]

#: At inputs of this size, each program has its value that float16 cannot hold.
LARGE = 1000.0
_LARGEST = 65504.0


def sample(scale: float) -> torch.Tensor:
    drawn = torch.rand(2, 4, 64, generator=torch.Generator().manual_seed(1))[..., :8] + 0.5
    return drawn * scale


def ranges(program: Program, x: torch.Tensor, opset: int = 18) -> tuple[Ranges, ir.Model]:
    """What is found in the exported program, of which no nodes are put together, and the mixed model."""
    exported = onnx_parity.export(
        program, (x,), opset_version=opset, input_names=["x"], strip_doc_string=False, optimize=False
    )
    return find_ranges(exported.model, [{"x": x}])


def planted_line(program: Program) -> int:
    lines, first = inspect.getsourcelines(program)
    return first + next(number for number, line in enumerate(lines) if "# planted" in line)


def main(opset: Annotated[int, typer.Option(help="The opset of the models.")] = 18) -> None:
    """Print for each program which line is found. Exits with 1 if one is not, or if one is found where all is held."""
    table = Table("program", "planted at line", "first found at", "its magnitude", "other inputs: found", "outputs")
    right = 0
    for program in PLANTED:
        (found, _), (held, _) = ranges(program, sample(LARGE), opset), ranges(program, sample(1.0), opset)
        computed = [each for each in found.not_held if each.operator != "a constant"]
        first = computed[0].line.rpartition(":")[2] if computed else "-"
        line = str(planted_line(program))
        false = sum(each.float16 is Fit.OVERFLOWS for each in held.values)
        is_absorbed = bool(program(sample(LARGE)).abs().max() <= _LARGEST)
        right += first == line and not false
        magnitude = f"{computed[0].largest:.3g}" if computed else "-"
        table.add_row(program.__name__, line, first, magnitude, str(false), "absorb it" if is_absorbed else "have it")
    Console().print(table)
    print(f"{right} of {len(PLANTED)} are found at their line, and nothing where float16 holds all")
    if right < len(PLANTED):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
