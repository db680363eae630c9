"""`parity node-tests`: how far the runtimes go through ONNX's own node tests."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, AxisError, Device, parse_runtimes
from onnx_parity.harness.commands.defaults import refuse


def node_tests(
    pattern: Annotated[str, typer.Argument(help="Tests whose names contain this: 'softmax'. Default: all.")] = "",
    runtimes: Annotated[str, typer.Option(help="As `parity run` has them.")] = f"{ONNXRUNTIME},{ONNX_REFERENCE}",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every test that did not pass, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every test's ending, as JSON.")] = False,
) -> None:
    """Run ONNX's node tests on runtimes and count how they end.

    *unsupported*: the runtime does not know the opset or has no kernel, and says so. *refused*: it does not load or run
    the model, for another reason. *wrong*: it gives something else than the test expects.

    Exit codes: 0 they were run; 2 used wrongly, or a runtime is missing.

    Examples:

        parity node-tests

        parity node-tests softmax --runtimes onnxruntime:none,backend:onnxruntime.backend -v
    """
    from onnx_parity.harness.subjects.node_suite import Ending, near, run_suite
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    try:
        names = parse_runtimes(runtimes)
        for name in names:
            if missing := RUNTIMES[name].missing(Device.CPU):
                raise AxisError(f"--runtimes: {name} cannot be tested here: {missing}")
    except AxisError as error:
        refuse(str(error))
    found = {name: list(run_suite(RUNTIMES[name], pattern)) for name in names}
    if not any(found.values()):
        close = ", ".join(near(pattern))
        refuse(f"no node test's name contains {pattern!r}" + (f"; near it: {close}." if close else "."))
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    for name, tests in found.items():
        counts = Counter(test.ending for test in tests)
        told = ", ".join(f"{counts[ending]} {ending}" for ending in Ending)
        typer.echo(f"{name}: {len(tests)} node tests: {told}")
        if verbose:
            for test in tests:
                if test.ending is not Ending.PASSED:
                    typer.echo(f"  {test.ending}  {test.name}: {test.reason}")
