"""Which classes of models of transformers are exported right: `python -m benchmarks.classes_of_transformers`.

Every class that a small configuration builds (`model_zoo/all_of_transformers.py`) is exported with dynamic axes and
without, and both models are verified: run in onnxruntime, and compared with eager PyTorch for several inputs and sizes.
There are 1,500 classes, of 490 architectures. The first class of every architecture comes first, one with a head where
there is one, so `--most 489` takes one of each. With `--output`, a call goes on after what an earlier one has written.
"""

from __future__ import annotations

import multiprocessing
import re
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.classes_of_transformers.page import written_page
from benchmarks.classes_of_transformers.skipped import SKIPPED
from benchmarks.classes_of_transformers.trying import MOST_SECONDS, Outcome, Result, serve
from benchmarks.options import search
from onnx_parity.model_zoo.all_of_transformers import class_names

#: What differs between two errors of one cause.
_DETAILS = re.compile(r"[\d.]+|'[^']*'|\"[^\"]*\"")


app = typer.Typer(add_completion=False)


@app.command()
def main(
    most: Annotated[int | None, typer.Option(help="Take so many classes at most.")] = None,
    only: Annotated[str, typer.Option(help="Take classes whose names match this regular expression.")] = "",
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Take the classes that transformers' tests of its exporter skip.")
    ] = False,
    opset: Annotated[int, typer.Option(help="The opset.")] = 18,
    output: Annotated[Path | None, typer.Option(help="Where to write each result, a line of JSON.")] = None,
    read: Annotated[bool, typer.Option("--read", help="Count what earlier calls have written there.")] = False,
    page: Annotated[Path | None, typer.Option(help="Where to write a page with each class that is not right.")] = None,
) -> None:
    """Export classes of transformers, and count which are right, refused or wrong, with the reasons."""
    found = _written(output)
    if not read:
        done = {each.name for each in found}
        listed = [name for names in SKIPPED.values() for name in names] if skipped else class_names()
        names = search("--only", only, listed)[:most]
        found += _write(_results([each for each in names if each not in done], opset), output)
    for table in [_each(found), *tables(found)] if skipped else tables(found):
        Console().print(table)
    if page is not None:
        page.write_text(written_page(found))


def _each(found: Sequence[Result]) -> Table:
    why = {name: reason for reason, names in SKIPPED.items() for name in names}
    table = Table("class", "transformers' exporter", "shapes", "this exporter", "processor time")
    for each in found:
        if each.name in why:
            table.add_row(each.name, why[each.name], each.shapes, each.outcome, f"{each.seconds:.1f} s")
    return table


def _written(output: Path | None) -> list[Result]:
    lines = output.read_bytes().splitlines() if output is not None and output.exists() else []
    return [msgspec.json.decode(line, type=Result) for line in lines]


def tables(found: Sequence[Result]) -> Iterator[Table]:
    """How many classes are right, of those that eager runs; and the reasons of the others, the most frequent first."""
    counts: defaultdict[str, dict[Outcome, int]] = defaultdict(lambda: dict.fromkeys(Outcome, 0))
    reasons: defaultdict[tuple[Outcome, str], list[str]] = defaultdict(list)
    for each in found:
        counts[each.shapes][each.outcome] += 1
        if each.outcome is not Outcome.RIGHT:
            reasons[each.outcome, _DETAILS.sub("…", each.reason)[:160]].append(f"{each.name} ({each.shapes})")
    table = Table("shapes", *Outcome, "right of those that eager runs")
    for shapes, of_them in sorted(counts.items(), reverse=True):
        runs = sum(of_them.values()) - of_them[Outcome.NOT_RUN] - of_them[Outcome.ONE_SIZE]
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
        if process is None or here is None:
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there, opset), daemon=True)
            process.start()
            there.close()
        here.send(name)
        answered: list[Result] = []
        try:
            while (answer := here.recv()) is not None:
                answered.append(answer)
        except (EOFError, ConnectionError):
            process.join()
            slow = process.exitcode == -signal.SIGPROF
            outcome, reason = (
                (Outcome.SLOW, f"more than {MOST_SECONDS} s") if slow else (Outcome.CRASHED, f"exit {process.exitcode}")
            )
            answered.append(Result(name, "dynamic" if answered else "static", outcome, reason, MOST_SECONDS))
            process = None
        yield from answered
    if process is not None:
        process.kill()


if __name__ == "__main__":
    app()
