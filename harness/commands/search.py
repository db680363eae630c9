"""`parity search`: generates programs and puts them to exporters, runtimes and transformations."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from onnx_parity.harness.axes import (
    GENERAL_EXPORTERS,
    ONNXRUNTIME,
    ONNXRUNTIME_OPSETS,
    PARITY,
    AxisError,
    parse_names,
    parse_opsets,
)
from onnx_parity.harness.cluster.connection import ClusterError
from onnx_parity.harness.cluster.crew import MIXED, ON, workforce
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.search.ledger import LEDGER, FindingError

if TYPE_CHECKING:
    from onnx_parity.harness.search.messages import Order
    from onnx_parity.harness.search.searching import Search

#: What a search must reach: programs that torch runs, programs without NaN and infinities, and programs a second of the
#: processor time of two cores.
IN_EAGER, FINITE, A_SECOND = 0.95, 0.8, 20.0

#: The most programs that a search for sizes draws.
_MOST_DRAWN = 10**6


def search(
    paths: defaults.Places = None,
    minutes: Annotated[float, typer.Option(min=0, help="How long to search.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The seed of all programs and their inputs.")] = 0,
    programs: Annotated[int, typer.Option(min=1, help="Stop after so many programs.")] = 10**9,
    processes: Annotated[
        int | None, typer.Option("-n", min=1, help="Worker processes.", show_default="one for each processor")
    ] = None,
    on: Annotated[str | None, ON] = None,
    mixed: Annotated[bool, MIXED] = False,
    probes: Annotated[
        str | None,
        typer.Option(
            help="Put every program to these probes, separated by commas, with * and ?: 'onnxruntime*,onnxslim'. "
            "MODULE:FUNCTION is a transformation of your own."
        ),
    ] = None,
    exporters: Annotated[str | None, typer.Option(help=f"Of {', '.join(GENERAL_EXPORTERS)}.")] = None,
    opsets: Annotated[str | None, typer.Option(help="Four of these are drawn for each program. Default: 7-26.")] = None,
    any_size: Annotated[
        bool,
        typer.Option(
            "--any-size", help="Search for models that are wrong at a size that their assumptions allow, from 0 to 9."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The search's folder. Default: runs/search-SEED.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals and causes as JSON.")] = False,
) -> None:
    """Generate programs, and look for wrong results, errors and crashes of exporters, runtimes and transformations.

    A program has up to 30 operators: those of the declarations and of PyTorch's operator database, and others, with
    views, writes in place, branches, loops, dynamic axes and mixed dtypes; two of three are declared cases side by
    side. Each is exported at four opsets, run in onnxruntime, and compared with PyTorch; some are put to other probes
    too: onnxruntime without optimisations, onnx.reference, onnx's shape inference and text format, transformations of
    models as `parity run --transforms` has them, PyTorch's fake tensors and decompositions, and its two exporters.

    A program that fails is reduced. The folder of the search gets one finding for each cause that `findings/` does not
    know. The same command goes on where the search was stopped. See also `parity findings`.

    Exit codes: 0 if nothing new was found; 1 if there are new findings; 2 if the command was used wrongly or was
    stopped.

    Examples:

        parity search --minutes 10

        parity search --seed 7 --probes onnxruntime --opsets 9,18 -n 2

        parity search --exporters torch_dynamo --opsets 18 --programs 200

        parity search --minutes 60 --on 10.0.0.5:6379

        parity search --any-size --minutes 10
    """
    if any_size:
        _search_sizes(minutes, seed, programs, as_json)
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from onnx_parity.harness.search.looking import PROBES, unknown
    from onnx_parity.harness.search.messages import Order, Report
    from onnx_parity.harness.search.searching import Search, SearchError

    asked = tuple(part.strip() for part in probes.split(",")) if probes else ()
    if wrong := unknown(asked):
        refuse(f"--probes: there is no probe {wrong[0]!r}. There are {', '.join(PROBES)}, and module:function.")
    try:
        names = parse_names("--exporters", exporters, GENERAL_EXPORTERS) if exporters else ()
        at = parse_opsets(opsets) if opsets else ONNXRUNTIME_OPSETS
    except AxisError as error:
        refuse(str(error))
    if above := [opset for opset in at if opset not in ONNXRUNTIME_OPSETS]:
        refuse(f"--opsets: onnxruntime does not support opset {above[0]}, only opsets up to {ONNXRUNTIME_OPSETS[-1]}.")
    order = Order(seed, tuple(map(str, defaults.declarations(paths))), asked, names, at, {})
    folder = out or defaults.runs() / f"search-{seed}"
    start = time.monotonic()
    try:
        looking = Search.at(folder, order, LEDGER)
        before = looking.state.totals.programs
        if before:
            print_text(f"{folder}: goes on after {before} programs", error=True)
        with (
            workforce(on, defaults.project().root, workers=processes, mixed=mixed) as (begin, number),
            Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            ) as progress,
        ):
            shown = progress.add_task("the workers start")

            def tell(report: Report) -> None:
                totals = looking.state.totals
                failed = totals.endings.get("failed", 0)
                progress.update(
                    shown, description=f"{totals.programs} programs, {failed} failures, {len(looking.new)} new causes"
                )

            looking.run(processes=number, seconds=minutes * 60, most=programs, done=tell, start=begin)
    except (SearchError, FindingError, ClusterError) as error:
        refuse(str(error))
    if not looking.state.totals.programs:
        refuse("No program was looked at in that time. Give more --minutes.")
    if as_json:
        print_json({"totals": looking.state.totals, "causes": looking.state.causes, "new": looking.new})
    else:
        _print(looking, looking.state.totals.programs - before, time.monotonic() - start, number)
    raise typer.Exit(1 if looking.new else 0)


def _print(search: Search, lately: int, seconds: float, processes: int) -> None:
    from onnx_parity.harness.search.searcher import WARM

    totals = search.state.totals
    count = totals.programs
    lasted = f"{lately} in {seconds:.0f} s on {'1 process' if processes == 1 else f'{processes} processes'}"
    print_text(f"{count} programs of {totals.operators} operators; {lasted}")
    # Of processor time, because a machine that others use has less than two cores.
    if _runs_the_exporter(search.state.order):
        speed, own = _speed(count, totals.seconds - totals.others)
        met = f"{_met(speed, A_SECOND)}: at least {A_SECOND:g}"
        print_text(f"  {speed:6.1f} a second on two cores, through this exporter and onnxruntime ({own})  {met}")
        if totals.warm:
            speed, own = _speed(totals.warm, totals.warm_seconds)
            print_text(f"  {speed:6.1f} a second of them after the first {WARM} programs of each process ({own})")
    speed, own = _speed(count, totals.seconds)
    print_text(f"  {speed:6.1f} a second on two cores with all exporters and probes, without reductions ({own})")
    shares = (
        ("run in eager", 1 - totals.refused / count, IN_EAGER),
        ("finite everywhere", totals.finite / count, FINITE),
        ("with inputs for which a difference means something", totals.steady / count, None),
    )
    for what, share, least in shares:
        met = "" if least is None else f"  {_met(share, least)}: at least {least:.0%}"
        print_text(f"  {share:6.1%} {what}{met}")
    print_text("  " + ", ".join(f"{number} points {ending}" for ending, number in sorted(totals.endings.items())))
    for refusal, number in sorted(search.state.refusals.items(), key=lambda item: -item[1])[:5]:
        print_text(f"  torch refused {number} times: {refusal}")
    for cause, number in sorted(search.state.causes.items(), key=lambda item: -item[1]):
        where = f"ledger: {search.ledger[cause]}" if cause in search.ledger else f"new: {search.new.get(cause, '')}"
        print_text(f"{number:5}  {cause}\n       {where}")
    if search.new:
        print_text(f"findings: parity findings --folder {search.folder / 'findings'}")


def _runs_the_exporter(order: Order) -> bool:
    """Whether every program is exported by this exporter and run in onnxruntime."""
    probed = not order.probes or any(fnmatchcase(ONNXRUNTIME, pattern) for pattern in order.probes)
    return probed and (not order.exporters or PARITY in order.exporters)


def _speed(count: int, seconds: float) -> tuple[float, str]:
    """Programs a second on two cores, and what one takes."""
    return 2 * count / max(seconds, 1e-9), f"{1000 * seconds / count:.0f} ms of processor time each"


def _met(found: float, least: float) -> str:
    return "ok" if found >= least else "short"


def _search_sizes(minutes: float, seed: int, programs: int, as_json: bool) -> NoReturn:
    """Draw programs from this number on, and end with 1 if a model of one is wrong where its assumptions hold."""
    from onnx_parity.harness.any_size.in_copies import run_in_copies
    from onnx_parity.harness.any_size.programs import look_at

    end, found, looked, compared = time.monotonic() + 60 * minutes, [], 0, 0
    numbers = range(seed, seed + min(programs, _MOST_DRAWN))
    for number, (sizes, *difference) in run_in_copies(numbers, look_at):
        looked += 1
        compared += int(sizes) if sizes.isdecimal() else 0
        if difference:
            found.append({"program": number, "difference": difference[0], "lines": difference[1:]})
            if not as_json:
                print_text("\n    ".join(difference))
        if time.monotonic() > end:
            break
    if as_json:
        print_json({"programs": looked, "sizes": compared, "found": found})
    else:
        print_text(f"{looked} programs, right at {compared} sizes; {len(found)} differ")
    raise typer.Exit(bool(found))
