"""`parity gate`: may this be released?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.defaults import refuse
from onnx_parity.harness.gate.formats import junit, lines, markdown, workflow_commands
from onnx_parity.harness.gate.policy import Policy, PolicyError, read_policy
from onnx_parity.harness.gate.verdict import judge
from onnx_parity.harness.store import RunStoreError


def gate(
    baseline: Annotated[Path, typer.Option(help="The run to be no worse than.")],
    run: Annotated[Path, typer.Option(help="The run that is judged.")] = Path("runs/last"),
    policy: Annotated[Path | None, typer.Option(help="What counts, and from where on: gate.toml.")] = None,
    summary: Annotated[Path | None, typer.Option("--markdown", help="Write a summary for the pull request.")] = None,
    xml: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")] = None,
    annotate: Annotated[
        bool, typer.Option("--annotations/--no-annotations", help="Print workflow commands. Default: on GitHub.")
    ] = os.environ.get("GITHUB_ACTIONS") == "true",
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Compare a run with a baseline, and say whether it regressed.

    docs/gate.md says what each finding means and what a policy can hold. Exit code: 0 no regression, 1 regressed,
    2 used wrongly.

    Examples:

        parity gate --baseline runs/20260131-101500-4711

        parity gate --baseline baseline --run runs/last --policy gate.toml --markdown summary.md --junit gate.xml
    """
    try:
        verdict = judge(baseline, run, read_policy(policy) if policy is not None else Policy())
    except (PolicyError, RunStoreError) as error:
        refuse(str(error))
    if summary is not None:
        summary.write_text(markdown(verdict), encoding="utf-8")
    if xml is not None:
        xml.write_text(junit(verdict), encoding="utf-8")
    if annotate:
        for line in workflow_commands(verdict):
            typer.echo(line)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(verdict)).decode())
    else:
        for line in lines(verdict):
            typer.echo(line)
    raise typer.Exit(1 if verdict.regressed else 0)
