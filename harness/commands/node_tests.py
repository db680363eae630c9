"""`parity node-tests`: runs ONNX's own node tests on runtimes, and counts those that pass."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, AxisError, Device, parse_runtimes
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse


def node_tests(
    pattern: Annotated[
        str, typer.Argument(help="Run the tests whose names contain this text: 'softmax'. Default: all.")
    ] = "",
    runtimes: Annotated[
        str, typer.Option(help="The runtimes to test, separated by commas, named as for `parity run --runtimes`.")
    ] = f"{ONNXRUNTIME},{ONNX_REFERENCE}",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every test that did not pass, and the reason.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome of every test as JSON.")] = False,
) -> None:
    """Run ONNX's own node tests on the runtimes and count the outcomes. This shows what a runtime itself gets wrong.

    *unsupported*: the runtime reports that it does not implement the opset, the operator or its types. *refused*: it
    fails to load or run the model for another reason. *wrong*: its outputs are not those that the test expects.

    Exit codes: 0 if the tests were run; 2 if the command was used wrongly or a runtime is missing.

    Examples:

        parity node-tests

        parity node-tests softmax --runtimes onnxruntime:none,backend:onnxruntime.backend -v
    """
    from onnx_parity.harness.subjects.node_suite import Ending, near, run_suite
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    # A backend may be a module of the project.
    defaults.project().make_importable()
    try:
        names = parse_runtimes(runtimes)
        for name in names:
            if missing := RUNTIMES[name].missing(Device.CPU):
                raise AxisError(f"--runtimes {name}: this runtime cannot be used here: {missing}")
    except AxisError as error:
        refuse(str(error))
    found = {name: list(run_suite(RUNTIMES[name], pattern)) for name in names}
    if not any(found.values()):
        close = ", ".join(near(pattern))
        refuse(
            f"No node test has a name that contains {pattern!r}." + (f" Similar operators: {close}." if close else "")
        )
    if as_json:
        print_json(found)
        return
    for name, tests in found.items():
        counts = Counter(test.ending for test in tests)
        outcomes = ", ".join(f"{counts[ending]} {ending}" for ending in Ending)
        print_text(f"{name}: {len(tests)} node tests: {outcomes}")
        if verbose:
            for test in tests:
                if test.ending is not Ending.PASSED:
                    print_text(f"  {test.ending}  {test.name}: {test.reason}")
