"""`parity gate`: whether a run is worse than a baseline, for continuous integration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_text, refuse
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info


def gate(
    baseline: Annotated[Path, typer.Option(help="The folder of the earlier run, which the new run is compared with.")],
    run: Annotated[
        Path, typer.Option(help="The folder of the new run.", default_factory=defaults.last, show_default="runs/last")
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file that sets which findings fail, warn or are ignored, and the thresholds. "
            "Default: the policy of the settings, if they name one."
        ),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--markdown", help="Write a Markdown summary for the pull request to this file.")
    ] = None,
    xml: Annotated[Path | None, typer.Option("--junit", help="Write the findings as JUnit XML to this file.")] = None,
    annotate: Annotated[
        bool,
        typer.Option(
            "--annotations/--no-annotations",
            help="Print GitHub workflow commands, which annotate the declarations. By default on GitHub Actions only.",
        ),
    ] = os.environ.get("GITHUB_ACTIONS") == "true",
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Compare a run with a baseline, and fail if it is worse: new failures, lost coverage, cells that were not run.

    `docs/gate.md` explains every kind of finding and the policy file.

    Exit codes: 0 if there is no regression; 1 if there is one; 2 if the command was used wrongly, if the baseline is
    empty, unfinished or damaged, or if the run is damaged and what is left of it has no regression.

    Examples:

        parity gate --baseline runs/20260131-101500-4711

        parity gate --baseline baseline --run runs/last --policy gate.toml --markdown summary.md --junit gate.xml
    """
    from onnx_parity.harness.gate.formats import junit, lines, markdown, workflow_commands
    from onnx_parity.harness.gate.policy import Policy, PolicyError, read_policy
    from onnx_parity.harness.gate.remeasuring import remeasure
    from onnx_parity.harness.gate.verdict import judge

    try:
        policy = policy or defaults.policy()
        places, info = defaults.declarations(), read_info(run)

        def measure(suspects: Sequence[str], others: Sequence[str]) -> dict[str, float]:
            cases = f"{len(suspects)} case{'s' * (len(suspects) != 1)}"
            print_text(f"measuring the exports of {cases} again, which seem slower", error=True)
            return remeasure(baseline, run, info, suspects, others, places)

        if read_info(baseline).id == info.id:
            refuse(
                f"{baseline} is the run that is compared with it, {info.id}. `parity run` makes a new one, and --run "
                "names another."
            )
        verdict = judge(baseline, run, read_policy(policy) if policy is not None else Policy(), measure)
    except (PolicyError, RunStoreError) as error:
        refuse(str(error))
    if summary is not None:
        summary.write_text(markdown(verdict), encoding="utf-8")
    if xml is not None:
        xml.write_text(junit(verdict), encoding="utf-8")
    if annotate:
        for line in workflow_commands(verdict):
            print_text(line)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(verdict)).decode())
    else:
        for line in lines(verdict):
            print_text(line)
    if verdict.regressed and verdict.damage:
        print_text(verdict.damage, error=True)
    raise typer.Exit(1 if verdict.regressed else 2 if verdict.damage else 0)
