"""`parity doctor`: what is installed, what is missing, and what that costs."""

from __future__ import annotations

import warnings
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.results.diagnosis import Check, Health, diagnose, healthy

_MARKS = {Health.OK: "ok     ", Health.MISSING: "missing", Health.BROKEN: "BROKEN "}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="The checks, as JSON.")] = False) -> None:
    """Say what is installed here, what is missing, what that costs, and what to do about it.

    Exit codes: 0 all that is needed is there; 1 something is broken.

    Examples:

        parity doctor

        parity doctor --json
    """
    checks = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check in diagnose():
            checks.append(check)
            if not as_json:
                typer.echo("\n".join(_lines(check)))
    if as_json:
        typer.echo(msgspec.json.encode(checks))
    raise typer.Exit(0 if healthy(checks) else 1)


def _lines(check: Check) -> list[str]:
    lines = [f"{_MARKS[check.health]}  {check.what:34}  {check.found}".rstrip()]
    lines += [f"         costs: {check.costs}"] if check.costs else []
    lines += [f"         to have it: {check.remedy}"] if check.remedy else []
    return lines
