"""`parity doctor`: what is installed, what is missing, and what that costs."""

from __future__ import annotations

import warnings
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.results.diagnosis import Finding, Health, diagnose, healthy

_MARKS = {Health.OK: "ok     ", Health.MISSING: "missing", Health.BROKEN: "BROKEN "}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="The findings, as JSON.")] = False) -> None:
    """Say what is installed here, what is missing, what that costs, and what to do about it.

    Exit codes: 0 all that is needed is there; 1 something is broken.

    Examples:

        parity doctor

        parity doctor --json
    """
    findings = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for finding in diagnose():
            findings.append(finding)
            if not as_json:
                typer.echo("\n".join(_lines(finding)))
    if as_json:
        typer.echo(msgspec.json.encode(findings))
    raise typer.Exit(0 if healthy(findings) else 1)


def _lines(finding: Finding) -> list[str]:
    lines = [f"{_MARKS[finding.health]}  {finding.what:34}  {finding.found}".rstrip()]
    lines += [f"         costs: {finding.costs}"] if finding.costs else []
    lines += [f"         to have it: {finding.remedy}"] if finding.remedy else []
    return lines
