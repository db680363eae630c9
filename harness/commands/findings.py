"""`parity findings`: lists the ledger of defects, runs them again, and writes the text of an issue."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.search.ledger import (
    FILE,
    LEDGER,
    Finding,
    FindingError,
    Now,
    Progress,
    Rerun,
    issue_text,
    read_findings,
    rerun_all,
    write_outcome,
)


def findings(
    patterns: Annotated[
        list[str] | None, typer.Argument(help="Names of findings, with * and ?: 'onnxruntime_*'. Default: all.")
    ] = None,
    culprit: Annotated[str | None, typer.Option(help="Only those of this software: 'onnxruntime', 'torch*'.")] = None,
    fault: Annotated[
        str | None, typer.Option(help="Only of this kind: wrong result, error, refusal, invalid model or crash.")
    ] = None,
    progress: Annotated[
        Progress | None, typer.Option(help="Only those that have come so far on their way to a release without them.")
    ] = None,
    unread: Annotated[bool, typer.Option("--unread", help="Only those that nobody has read.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Run their scripts against what is installed.")] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="With --run: keep what the scripts print, and the versions, as the new state."),
    ] = False,
    issue: Annotated[
        bool, typer.Option("--issue", help="Print the text of an issue for the culprit's tracker.")
    ] = False,
    folder: Annotated[Path, typer.Option(help="The folder of the findings.")] = LEDGER,
    processes: Annotated[int, typer.Option("-n", min=1, help="With --run: scripts at a time.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings, and what became of them, as JSON.")
    ] = False,
) -> None:
    """List the known defects of other software, run them again, or write the text of an issue.

    A finding is a folder: `finding.toml` says in words what is wrong, and `script.py` shows it with nothing but torch,
    onnx and the culprit. `parity search` writes such folders; one that a person has read belongs into `findings/`.

    With --run, each script is run in a process of its own. A finding is *still there* if the script ends and prints as
    recorded, *gone* if it ends with 0, and *changed* otherwise. It *cannot run* if a module that it needs is missing.

    `finding.toml` also says where a finding was reported, what its maintainers said (`confirmed`), since which release
    it is there, and in which it is gone (`fixed_in`); `parity bisect findings/NAME DISTRIBUTION --keep` finds the last
    two.

    Exit codes: 0 if every finding is as recorded; 1 if one is gone or has changed; 2 if the command was used wrongly.

    Examples:

        parity findings

        parity findings --culprit "onnx*" --fault "wrong result" --run -n 2

        parity findings onnxruntime_max_pool_of_infinities --issue

        parity findings --progress fixed

        parity findings --folder runs/search-0/findings --unread
    """
    if keep and not run:
        refuse("--keep keeps what the scripts print: give --run as well.")
    if issue and (run or as_json):
        refuse("--issue prints a text and runs nothing: remove --run and --json.")
    if not folder.is_dir():
        refuse(
            f"{folder}: there is no such folder. A clone of this project has findings/, and a search its own: "
            "--folder runs/search-0/findings."
        )
    try:
        known = read_findings(folder)
    except FindingError as error:
        refuse(str(error))
    chosen = {
        name: each
        for name, each in known.items()
        if progress in (None, each.progress) and _is_asked(name, each, patterns, culprit, fault, unread=unread)
    }
    if not chosen:
        refuse(_nothing_chosen(folder, known, patterns, culprit, fault))
    if issue:
        print_text("\n---\n\n".join(issue_text(folder / name, each) for name, each in chosen.items()))
        return
    became: dict[str, Rerun] = {}
    if run:
        for name, rerun in rerun_all(folder, chosen, processes):
            became[name] = rerun
            if keep:
                chosen[name] = write_outcome(folder / name, chosen[name], rerun)
            if not as_json:
                print_text(f"{rerun.now:18} {name}")
                if rerun.now is not Now.THERE:
                    print_text("\n".join(f"    {line}" for line in rerun.prints.splitlines()))
    if as_json:
        print_json(
            {
                name: {**msgspec.to_builtins(each), "progress": each.progress, "now": _describe(became.get(name))}
                for name, each in chosen.items()
            }
        )
    elif not run:
        for name, each in chosen.items():
            print_text("\n".join(_listed(name, each)))
    if not as_json:
        _print_sums(chosen, became)
    raise typer.Exit(1 if any(each.now in (Now.GONE, Now.CHANGED) for each in became.values()) and not keep else 0)


def _listed(name: str, finding: Finding) -> list[str]:
    lines = [f"{name}{'' if finding.read else '  (unread)'}"]
    lines.append(f"    {finding.culprit}, {finding.fault}: {finding.title}")
    came = [finding.progress.value if finding.progress is not Progress.UNREPORTED else "", finding.history.words]
    if any(came):
        lines.append(f"    {', '.join(each for each in (*came, finding.reported) if each)}")
    return lines


def _is_asked(
    name: str, finding: Finding, patterns: list[str] | None, culprit: str | None, fault: str | None, *, unread: bool
) -> bool:
    return (
        (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        and (culprit is None or fnmatchcase(finding.culprit, culprit))
        and (fault is None or finding.fault == fault)
        and not (unread and finding.read)
    )


def _nothing_chosen(
    folder: Path, known: dict[str, Finding], patterns: list[str] | None, culprit: str | None, fault: str | None
) -> str:
    """Which of the conditions no finding meets, and what could be meant."""
    if not known:
        return f"{folder} has no finding: no folder in it has a {FILE}."
    for what, asked, there in (
        ("culprit", culprit, {each.culprit for each in known.values()}),
        ("fault", fault, {each.fault for each in known.values()}),
    ):
        if asked is not None and not any(fnmatchcase(each, asked) for each in there):
            return f"--{what}: no finding of {folder} has the {what} {asked!r}. There are {', '.join(sorted(there))}."
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            close = get_close_matches(pattern, known, n=3)
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            return f"{folder} has no finding {pattern!r}.{meant} `parity findings` lists their names."
    return f"{folder} has findings, but none that meets all of these conditions."


def _describe(rerun: Rerun | None) -> object:
    return None if rerun is None else {"is": rerun.now, "exit": rerun.exit, "prints": rerun.prints}


def _print_sums(chosen: dict[str, Finding], became: dict[str, Rerun]) -> None:
    of = Counter(each.culprit for each in chosen.values())
    kinds = Counter(each.fault for each in chosen.values())
    number = "1 finding" if len(chosen) == 1 else f"{len(chosen)} findings"
    print_text(
        f"{number}: {_list_findings(of)}; {_list_findings(kinds)}; {sum(each.read for each in chosen.values())} read; "
        f"{_list_findings(Counter(each.progress.value for each in chosen.values()))}"
    )
    if became:
        print_text(_list_findings(Counter(each.now.value for each in became.values())))


def _list_findings(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.most_common())
