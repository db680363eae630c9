"""Whether the gate keeps quiet over runs of the same code: pairs of runs with a finding are false alarms.

python -m tests.harness.same_code --pairs 20 -- --tier smoke
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer


class _Found(msgspec.Struct):
    kind: str
    subject: str
    detail: str


class _Verdict(msgspec.Struct):
    """The part of `parity gate --json` that is used here."""

    findings: list[_Found]
    undecided: list[str]
    counts: dict[str, tuple[int, int]]


def _parity(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from onnx_parity.harness.cli import app; app()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _run(runs: Path, selection: list[str]) -> Path:
    done = _parity("run", *selection, "--no-report", "--runs", str(runs), "--json")
    if done.returncode not in (0, 1):
        raise typer.BadParameter(f"parity run {' '.join(selection)} ended with {done.returncode}:\n{done.stderr}")
    return Path(msgspec.json.decode(done.stdout)["run"])


def main(
    selection: Annotated[list[str] | None, typer.Argument(help="Arguments of `parity run`, after `--`.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs of runs are compared.")] = 20,
) -> None:
    """Run the same cells again and again, compare each run with the one before, and count the pairs with findings.

    Exit codes: 0 if no pair has a finding; 1 if some have.
    """
    quiet = 0
    with tempfile.TemporaryDirectory(prefix="same-code-") as folder:
        runs = Path(folder)
        before = _run(runs, selection or [])
        for pair in range(1, pairs + 1):
            now = _run(runs, selection or [])
            gate = _parity("gate", "--baseline", str(before), "--run", str(now), "--json", "--no-annotations")
            verdict = msgspec.json.decode(gate.stdout, type=_Verdict)
            alarms = [f"{found.kind}: {found.subject}: {found.detail}" for found in verdict.findings]
            quiet += not alarms and not verdict.undecided
            cells = sum(after for _, after in verdict.counts.values())
            measured = ", after measuring exports again" if "measuring the exports" in gate.stderr else ""
            print(f"pair {pair}: {cells} cells, {len(alarms)} findings{measured}", flush=True)
            for line in (*alarms, *verdict.undecided):
                print(f"  {line}", flush=True)
            before = now
    print(
        f"{quiet} of {pairs} pairs have no finding (target: {pairs} of {pairs}): {'ok' if quiet == pairs else 'short'}"
    )
    raise typer.Exit(0 if quiet == pairs else 1)


if __name__ == "__main__":
    typer.run(main)
