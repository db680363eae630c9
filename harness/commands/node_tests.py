"""`parity node-tests`: runs ONNX's own node tests on runtimes, and counts those that pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, RUNTIME_NAMES, AxisError, Device, parse_runtimes
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.record import Ending
from onnx_parity.harness.results.scoreboard import GRAVE

if TYPE_CHECKING:
    from onnx_parity.harness.running.node_suite import NodeTest

#: What names every runtime that is installed.
_ALL = "all"
#: At most this many tests with a grave ending are listed without `--verbose`.
_SHOWN = 40


def node_tests(
    pattern: Annotated[
        str, typer.Argument(help="Run the tests whose names contain this text: 'softmax'. Default: all.")
    ] = "",
    runtimes: Annotated[
        str,
        typer.Option(help="The runtimes to test, separated by commas, named as for `parity run --runtimes`; or all."),
    ] = f"{ONNXRUNTIME},{ONNX_REFERENCE}",
    seconds: Annotated[float, typer.Option(min=0.1, help="The limit of each test in seconds.")] = 60.0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every test that did not pass, and the reason.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome of every test as JSON.")] = False,
) -> None:
    """Run ONNX's own node tests on the runtimes and count the outcomes. This shows what a runtime itself gets wrong.

    *wrong*: its outputs are not those that the test expects. *crashed* and *hung*: its process ended, or did not end in
    time. *refused*: it fails to load or run the model with an error. *unsupported*: it says that it does not implement
    the opset, the operator or its types. What is wrong, crashed or hung comes first, with how many of the other
    runtimes are right.

    `--runtimes all` runs every runtime that is installed, and names those that are missing.

    Exit codes: 0 if the tests were run; 2 if the command was used wrongly or a runtime is missing.

    Examples:

        parity node-tests

        parity node-tests softmax --runtimes onnxruntime:none,openvino,backend:onnxruntime.backend -v
    """
    from onnx_parity.harness.running.node_suite import names_with, near, run_suite
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    # A backend may be a module of the project.
    defaults.project().make_importable()
    try:
        names = RUNTIME_NAMES if runtimes == _ALL else parse_runtimes(runtimes)
        if runtimes == _ALL:
            absent = {name: reason for name in names if (reason := RUNTIMES[name].missing(Device.CPU))}
            for name, reason in absent.items():
                print_text(f"{name} is missing: {reason}", error=True)
            names = tuple(name for name in names if name not in absent)
        for name in names:
            if missing := RUNTIMES[name].missing(Device.CPU):
                raise AxisError(f"--runtimes {name}: this runtime cannot be used here: {missing}")
    except AxisError as error:
        refuse(str(error))
    if not names_with(pattern):
        close = ", ".join(near(pattern))
        refuse(
            f"No node test has a name that contains {pattern!r}." + (f" Similar operators: {close}." if close else "")
        )
    found = {}
    for name in names:
        if len(names) > 1:
            print_text(f"{name} ...", error=True)
        found[name] = list(run_suite(RUNTIMES[name], pattern, seconds=seconds))
    if as_json:
        print_json(found)
        return
    lines = _grave(found)
    for line in lines if verbose else lines[:_SHOWN]:
        print_text(line)
    if len(lines) > _SHOWN and not verbose:
        print_text(f"{len(lines) - _SHOWN} more: --verbose lists them.")
    for name, tests in found.items():
        counts = Counter(test.ending for test in tests)
        outcomes = ", ".join(f"{counts[ending]} {ending}" for ending in reversed(Ending))
        print_text(f"{name}: {len(tests)} node tests: {outcomes}")
        if verbose:
            for test in sorted(tests, key=lambda test: _ORDER[test.ending]):
                if test.ending in (Ending.REFUSED, Ending.UNSUPPORTED):
                    print_text(f"  {test.ending}  {test.name}: {test.reason}")


#: The endings, the gravest first.
_ORDER = {ending: number for number, ending in enumerate(Ending)}


def _grave(found: Mapping[str, Sequence[NodeTest]]) -> list[str]:
    """A line for each test that a runtime gets silently wrong, or does not survive, with what the others make of it."""
    by_test: defaultdict[str, list[Ending]] = defaultdict(list)
    for tests in found.values():
        for test in tests:
            by_test[test.name].append(test.ending)
    grave = [(name, test) for name, tests in found.items() for test in tests if test.ending in GRAVE]
    lines = []
    for name, test in sorted(grave, key=lambda each: (_ORDER[each[1].ending], each[0], each[1].name)):
        right = by_test[test.name].count(Ending.RIGHT)
        ran = len(by_test[test.name]) - by_test[test.name].count(Ending.UNSUPPORTED) - 1
        others = f"; {right} of {ran} other runtimes are right" if ran else ""
        lines.append(f"{test.ending}: {name}: {test.name}{others}: {test.reason}")
    return lines
