"""`parity compare`: compares exporters on torch's OpInfo samples."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from onnx_parity.harness.axes import (
    EXPORTER_NAMES,
    ONNXRUNTIME_OPSETS,
    PARITY,
    AxisError,
    Dtype,
    Tier,
    parse_names,
    parse_opsets,
)
from onnx_parity.harness.cases.opinfo_entries import (
    FEW,
    FIRST_DTYPES,
    Database,
    Usable,
    first_dtype,
    read_survey,
    spread,
    survey_path,
)
from onnx_parity.harness.cluster.connection import ClusterError
from onnx_parity.harness.cluster.crew import MIXED, ON, workforce
from onnx_parity.harness.comparison.figures import (
    OF_DECLARED,
    PEER_OPSET,
    missed_though_a_peer_is_right,
    misses,
    right_with_a_peer,
    rows,
    spelled_points,
    targets,
)
from onnx_parity.harness.comparison.outcome import Comparison, Outcome, Point, Task, Verdict
from onnx_parity.harness.comparison.workers import WorkerStartError, run_tasks
from onnx_parity.harness.project import find_project
from onnx_parity.harness.results.environment import describe_run


def compare(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(help="OpInfo entries, with * and ?: 'clamp*'. Default: those of op_cases/opinfo.py."),
    ] = None,
    exporters: Annotated[str, typer.Option(help=f"Which to compare: {', '.join(EXPORTER_NAMES)}.")] = ",".join(
        EXPORTER_NAMES
    ),
    opsets: Annotated[
        str | None,
        typer.Option(
            help=f"Default: {', '.join(map(str, OF_DECLARED.at_least))}, and {PEER_OPSET} for torch's exporters."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Samples of an entry, evenly spread; 0 for all.")] = FEW,
    processes: Annotated[
        int | None,
        typer.Option("-n", min=1, help="Worker processes.", show_default="1, or all processors of the cluster"),
    ] = None,
    on: Annotated[str | None, ON] = None,
    mixed: Annotated[bool, MIXED] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent worker is ended.")] = 120.0,
    seed: Annotated[int, typer.Option(help="The seed of the samples.")] = 0,
    database: Annotated[
        bool, typer.Option("--database", help="All entries of torch's operator database, at opset 18 by default.")
    ] = False,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Default: float32, else int64, else bool, else complex64.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every outcome, as JSON, instead of tables.")] = False,
) -> None:
    """Compare exporters on torch's OpInfo samples, each in a process that may crash.

    A sample counts as right if onnxruntime returns torch's result: floats to 1e-3 relative plus 1e-4 (of 16 bits, to
    16 units in the last place of the largest element, or to what torch computes from the same values in float32),
    dtypes, shapes and all other values exactly, for the exported values and for others. Complex numbers are pairs of
    reals.

    Exit codes: 0 all targets are met; 1 one is not; 2 used wrongly.

    Examples:

        parity compare

        parity compare --exporters parity

        parity compare --exporters parity --database "fft.*" --opsets 9,18

        parity compare "nn.functional.*pool*" --opsets 9-13 --samples 0

        parity compare --exporters parity --database --on 10.0.0.5:6379
    """
    # Imported here, because it imports torch, which the other commands do not need.
    from onnx_parity.harness.declaration_error import DeclarationError

    sys.path.insert(0, str(Path.cwd()))
    terminal = Console(stderr=True)
    try:
        names = parse_names("--exporters", exporters, EXPORTER_NAMES)
        asked = parse_opsets(opsets) if opsets is not None else None
        _refuse_what_cannot_run(names, asked or ())
        points = tuple(_points(patterns or [], samples, database=database, dtype=dtype))
        outcomes: list[Outcome] = []
        workers = processes or (1 if on is None else None)
        with (
            workforce(on, find_project(Path.cwd()).root, workers=workers, mixed=mixed) as (start, number),
            Progress(console=terminal, transient=True) as progress,
        ):
            for exporter in names:
                at = asked or (tuple(OF_DECLARED.at_least) if exporter == PARITY and not database else (PEER_OPSET,))
                outcomes += run_tasks(
                    exporter,
                    [Task(point, at) for point in points],
                    seed=seed,
                    processes=number,
                    timeout=timeout,
                    start=start,
                    done=partial(progress.advance, progress.add_task(exporter, total=len(points) * len(at))),
                )
    except (AxisError, DeclarationError, WorkerStartError, ClusterError) as error:
        terminal.print(str(error), markup=False, highlight=False)
        raise typer.Exit(2) from error
    outcomes.sort(key=lambda each: (each.exporter, each.opset, each.point))
    run = describe_run(seed=seed, tier=Tier.DEFAULT, argv=sys.argv[1:], project=Path.cwd())
    whole = not (patterns or dtype) and samples == FEW
    comparison = Comparison(run, whole, database, names, points, tuple(outcomes))
    if as_json:
        typer.echo(msgspec.json.encode(comparison))
    else:
        _print(comparison, Console())
    raise typer.Exit(0 if all(target.met for target in targets(comparison)) else 1)


def _refuse_what_cannot_run(exporters: tuple[str, ...], opsets: tuple[int, ...]) -> None:
    from onnx_parity.harness.subjects.exporters import EXPORTERS

    for name in exporters:
        if missing := EXPORTERS[name].missing():
            raise AxisError(f"--exporters: {name} cannot be compared here: {missing}. Leave it out, or install it.")
    if above := [opset for opset in opsets if opset not in ONNXRUNTIME_OPSETS]:
        raise AxisError(
            f"--opsets: onnxruntime, which runs the models here, does not support opset {above[0]}, "
            f"only {ONNXRUNTIME_OPSETS[0]} to {ONNXRUNTIME_OPSETS[-1]}."
        )


def _points(patterns: list[str], samples: int, *, database: bool, dtype: Dtype | None) -> Iterator[Point]:
    """The samples on which exporters are compared."""
    known = read_survey(survey_path(Database.OPERATORS.value.absolute())) if database else _declared()
    chosen = {entry: usable for entry, usable in known.items() if not patterns or _matches(entry, patterns)}
    for pattern in patterns:
        if not any(_matches(entry, [pattern]) for entry in known):
            from onnx_parity.harness.cases.opinfo_samples import usable_samples

            chosen[pattern] = usable_samples(pattern)
    for entry, usable in chosen.items():
        run_in = first_dtype(usable, FIRST_DTYPES if dtype is None else (dtype,))
        if run_in is not None:
            for position in spread(usable[run_in], samples) if samples else usable[run_in]:
                yield Point(entry, run_in, position)


def _declared() -> dict[str, Usable]:
    """The usable samples of the entries that op_cases declares."""
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.opinfo import OpInfoDeclaration

    return {
        entry: declaration.usable(entry)
        for place in find_project(Path.cwd()).declarations
        for _, declaration in declared_under(place)
        if isinstance(declaration, OpInfoDeclaration)
        for entry in declaration.entry_names
    }


def _matches(entry: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(entry, pattern) for pattern in patterns)


def _print(comparison: Comparison, terminal: Console) -> None:
    table = Table("exporter", "opset", *Verdict, "median export", box=None, header_style="bold")
    for row in rows(comparison):
        took = "" if row.milliseconds is None else f"{row.milliseconds:.1f} ms"
        table.add_row(row.exporter, str(row.opset), *(str(row.counts.get(each, 0)) for each in Verdict), took)
    entries = len({point.entry for point in comparison.points})
    terminal.print(f"{len(comparison.points)} samples of {entries} entries", highlight=False)
    terminal.print(table)
    for group in misses(comparison, PARITY):
        at = ",".join(map(str, group.opsets))
        text = f"{group.verdict} at {at}: {spelled_points(group.points)}\n    {group.reason}"
        terminal.print(text, markup=False, highlight=False, soft_wrap=True)
    either = right_with_a_peer(comparison)
    if either:
        missed = spelled_points(tuple(missed_though_a_peer_is_right(comparison)))
        terminal.print(f"a peer is right on {len(either)}; of these not right here: {missed or 'none'}", markup=False)
    for target in targets(comparison):
        met = "ok   " if target.met else "short"
        terminal.print(f"{met}  {target.wanted}: {target.found}", markup=False, highlight=False)
