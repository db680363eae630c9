"""`parity doctor`: what is installed, what is missing, and what does not work without it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text

if TYPE_CHECKING:
    from onnx_parity.harness.results.diagnosis import Check

#: By health.
_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN "}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False) -> None:
    """Check this installation: what is installed, what is missing, what does not work without it, and how to get it.

    Exit codes: 0 if everything that is required works; 1 if something that is required is missing or broken.

    Examples:

        parity doctor

        parity doctor --json
    """
    from onnx_parity.harness.results.diagnosis import diagnose, healthy

    checks = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check in diagnose():
            checks.append(check)
            if not as_json:
                print_text("\n".join(_lines(check)))
    if as_json:
        print_json(checks)
    raise typer.Exit(0 if healthy(checks) else 1)


def _lines(check: Check) -> list[str]:
    lines = [f"{_MARKS[check.health]}  {check.what:34}  {check.found}".rstrip()]
    lines += [f"         without it: {check.costs}"] if check.costs else []
    lines += [f"         to get it: {check.remedy}"] if check.remedy else []
    return lines
