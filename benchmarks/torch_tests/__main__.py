"""Runs PyTorch's own tests of its exporter under onnxruntime: `python -m benchmarks.torch_tests`.

    python -m benchmarks.torch_tests --opsets 9,13,17 --exporters parity,torch_script
    python -m benchmarks.torch_tests ~/pytorch/test/onnx --only "index_put|expand" --opsets 13

The tests are those of PyTorch 1.13, the last release that has all of them. They are read from a checkout of that
release, or fetched from GitHub when no folder is named. Each program of a test is exported as the test asks, traced and
scripted; the model is run on the test's inputs, and with each dynamic axis larger by 1. The harness judges what it
returns, as in every other cell, and each program ends as a record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.children import RestartedWorker
from benchmarks.options import search
from benchmarks.torch_tests.cases import CAPTURES, TorchTest, record_of
from benchmarks.torch_tests.figures import show, to_mend
from benchmarks.torch_tests.source import RELEASE, MissingTestsError, fetched, folder_of
from onnx_parity.harness.axes import GENERAL_EXPORTERS, ONNXRUNTIME, AxisError, parse_names, parse_opsets
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.running.child_process import ProcessEndedError


def _records(worker: RestartedWorker, asked: TorchTest) -> list[Record]:
    try:
        found: list[Record] = worker.answer(asked, list[Record])
    except ProcessEndedError as ending:
        return [record_of(Outcome(asked.cell(0), ONNXRUNTIME, status=Status.CRASHED, reason=str(ending)))]
    return found


def _select(tests: Sequence[str], exporters: Sequence[str], opsets: Sequence[int]) -> Iterator[TorchTest]:
    for opset in opsets:
        for test in tests:
            for capture in CAPTURES:
                for exporter in exporters:
                    yield TorchTest(exporter, opset, test, capture)


def main(
    folder: Annotated[
        Path | None, typer.Argument(help=f"test/onnx of a checkout of PyTorch {RELEASE}; fetched if not given.")
    ] = None,
    opsets: Annotated[str, typer.Option(help="Opsets, as in 9,11 or 9-17.")] = "9,11,13,15,17",
    exporters: Annotated[
        str, typer.Option(help=f"Which to run: {', '.join(GENERAL_EXPORTERS)}.")
    ] = "parity,torch_script",
    only: Annotated[str, typer.Option(help="A regular expression for the names of the tests.")] = "",
    into: Annotated[
        Path | None,
        typer.Option("--json", help="Write each record to this file, a line each; what it has is not run again."),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a test is ended.")] = 300.0,
) -> None:
    """Run PyTorch's own tests of its exporter with this one, beside torch.onnx's.

    Exit codes: 0 this exporter is nowhere wrong, broken or crashed, and right wherever another is; 1 it is not; 2 used
    wrongly, or the tests are not there.
    """
    terminal = Console(stderr=True, highlight=False)
    try:
        names, at = parse_names("--exporters", exporters, GENERAL_EXPORTERS), parse_opsets(opsets)
        if into is not None and (into.is_dir() or not into.absolute().parent.is_dir()):
            raise AxisError(f"--json: {into} cannot be written: name a file in a folder that exists")
        tests_of = folder_of(folder) if folder is not None else fetched()
        worker = RestartedWorker("benchmarks.torch_tests.worker", timeout, (str(tests_of),))
        found = _read(into) if into is not None and into.exists() else []
        try:
            tests = search("--only", only, worker.names())
        except typer.BadParameter:
            worker.end()
            raise
    except (AxisError, MissingTestsError) as error:
        terminal.print(str(error), markup=False)
        raise typer.Exit(2) from error
    except msgspec.DecodeError as error:
        terminal.print(f"--json: {into} is not a file of records: {error}", markup=False)
        raise typer.Exit(2) from error
    except ProcessEndedError as ending:
        terminal.print(f"torch's tests cannot be imported: the process {ending}", markup=False)
        raise typer.Exit(2) from ending
    known = {TorchTest.of(each) for each in found}
    wanted = list(_select(tests, names, at))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=terminal, transient=True) as progress:
            bar = progress.add_task("tests", total=len(wanted))
            for asked in wanted:
                progress.update(bar, description=f"{asked.name} {asked.exporter} {asked.opset}")
                if asked not in known:
                    these = _records(worker, asked)
                    found += these
                    if into is not None:
                        with into.open("ab") as file:
                            file.writelines(msgspec.json.encode(each) + b"\n" for each in these)
                progress.advance(bar)
    finally:
        worker.end()
    selected = set(wanted)
    found = [each for each in found if TorchTest.of(each) in selected]
    show(found, Console(width=None if sys.stdout.isatty() else 140, highlight=False))
    raise typer.Exit(1 if to_mend(found) else 0)


def _read(path: Path) -> list[Record]:
    """The records of an earlier run. What follows the last line's end was not written whole."""
    whole, _, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        path.write_bytes(whole + b"\n" if whole else b"")
    return [msgspec.json.decode(line, type=Record) for line in whole.splitlines()]


if __name__ == "__main__":
    typer.run(main)
