"""Which classes of models of transformers are exported right: `python -m benchmarks.classes_of_transformers`.

Every class that a small configuration builds (`model_zoo/all_of_transformers.py`) is exported with dynamic axes and
without, and both models are verified: run in onnxruntime, and compared with eager PyTorch for several inputs and sizes.
There are 1,500 classes; `--every 10` takes each tenth of them.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.classes_of_transformers.trying import Outcome, Result, serve
from onnx_parity.model_zoo.all_of_transformers import transformers_classes

#: Seconds that a class may take, both exports together, before its process is ended.
MOST_SECONDS = 240.0
#: What differs between two errors of one cause.
_DETAILS = re.compile(r"[\d.]+|'[^']*'|\"[^\"]*\"")


app = typer.Typer(add_completion=False)


@app.command()
def main(
    every: Annotated[int, typer.Option(help="Take each so-manieth class.")] = 1,
    first: Annotated[int, typer.Option(help="The first class that is taken.")] = 0,
    only: Annotated[str, typer.Option(help="Take classes whose names match this regular expression.")] = "",
    opset: Annotated[int, typer.Option(help="The opset.")] = 18,
    output: Annotated[Path | None, typer.Option(help="Where to write each result, a line of JSON.")] = None,
    read: Annotated[bool, typer.Option("--read", help="Count what an earlier call has written there.")] = False,
) -> None:
    """Export classes of transformers, and count which are right, refused or wrong, with the reasons."""
    if read and output is not None:
        found = [msgspec.json.decode(line, type=Result) for line in output.read_bytes().splitlines()]
    else:
        names = [each for each in transformers_classes.listed()[first::every] if re.search(only, each)]
        found = list(_write(_results(names, opset), output))
    for table in tables(found):
        Console().print(table)


def tables(found: Sequence[Result]) -> Iterator[Table]:
    """How many classes are right, of those that eager runs; and the reasons of the others, the most frequent first."""
    counts: defaultdict[str, dict[Outcome, int]] = defaultdict(lambda: dict.fromkeys(Outcome, 0))
    reasons: defaultdict[tuple[Outcome, str], list[str]] = defaultdict(list)
    for each in found:
        counts[each.shapes][each.outcome] += 1
        if each.outcome is not Outcome.RIGHT:
            reasons[each.outcome, _DETAILS.sub("…", each.reason)[:160]].append(f"{each.name} ({each.shapes})")
    table = Table("shapes", *Outcome, "right of those that eager runs")
    for shapes, of_them in sorted(counts.items()):
        runs = sum(of_them.values()) - of_them[Outcome.NOT_RUN]
        if runs:
            table.add_row(shapes, *map(str, of_them.values()), f"{of_them[Outcome.RIGHT] / runs:.1%} of {runs}")
    yield table
    table = Table("outcome", "count", "reason", "for example")
    for (outcome, reason), names in sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]))):
        if outcome is not Outcome.NOT_RUN:
            table.add_row(outcome, str(len(names)), reason, names[0])
    yield table


def _write(results: Iterator[Result], output: Path | None) -> Iterator[Result]:
    for each in results:
        if output is not None:
            with output.open("ab") as file:
                file.write(msgspec.json.encode(each) + b"\n")
        yield each


def _results(names: Sequence[str], opset: int) -> Iterator[Result]:
    """The results of classes, in a process that is started anew where one of them takes too long or ends it."""
    context = multiprocessing.get_context("spawn")
    process, here = None, None
    for name in track(names, console=Console(stderr=True)):
        if process is None or here is None or not process.is_alive():
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there, opset), daemon=True)
            process.start()
            there.close()
        begun = time.monotonic()
        here.send(name)
        try:
            if here.poll(MOST_SECONDS):
                yield from here.recv()
                continue
            outcome = Result(name, "static", Outcome.SLOW, f"more than {MOST_SECONDS:.0f} s", MOST_SECONDS)
        except (EOFError, ConnectionError):
            outcome = Result(name, "static", Outcome.CRASHED, "the process ended", time.monotonic() - begun)
        process.kill()
        process = None
        yield outcome
    if process is not None:
        process.kill()


if __name__ == "__main__":
    app()
