"""`parity judge`: scores what a runner of the conformance pack wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

#: At most this many tests are listed without `--all`.
_LISTED = 40


def judge(
    submission: Annotated[Path, typer.Argument(help="The folder that a runner wrote.")],
    pack: Annotated[Path, typer.Option(help="The pack that it ran.")],
    every: Annotated[bool, typer.Option("--all", help="List every test that is wrong, crashes or hangs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement of every test as JSON.")] = False,
) -> None:
    """Judge a submission: count what is right, wrong, crashed, hung, refused, unsupported or absent, list by list.

    The files of the pack are compared with its manifest first. Outputs that the submission has as files are judged
    here, whatever the runner says of them. A waiver covers failures until its date, for its versions of the runtime.

    *refused*: an error that does not say that something is not supported. *unsupported*: the runtime says so.
    *absent*: there is no result.

    Exit codes: 0 if something is right, and nothing is wrong, crashes or hangs but for waivers; 1 otherwise; 2 if the
    pack or the submission cannot be read.

    Examples:

        parity judge my-submission --pack my-pack

        parity judge my-submission --pack my-pack --json
    """
    from onnx_parity.harness.conformance.judging import judge_submission, open_pack
    from onnx_parity.harness.conformance.manifest import PackError

    try:
        opened = open_pack(pack)
        opened.check()
        judgement = judge_submission(submission, opened)
    except PackError as error:
        refuse(str(error))
    if as_json:
        print_json(judgement)
        raise typer.Exit(0 if judgement.conforms else 1)
    for note in judgement.notes:
        print_text(note, error=True)
    grave = [test for test in judgement.tests if test.counts_against]
    for test in grave if every else grave[:_LISTED]:
        print_text(f"{test.result}: {test.id}: {test.reason}")
    if len(grave) > _LISTED and not every:
        print_text(f"{len(grave) - _LISTED} more: --all lists them.")
    print_text(f"{judgement.submission.runtime} on {judgement.submission.platform}")
    for name, score in judgement.scores.items():
        counts = ", ".join(f"{number} {result}" for result, number in score.results.items())
        waived = f"; waivers cover {score.waived} of the failures" if score.waived else ""
        print_text(f"{name}: {score.tests} tests: {counts}{waived}")
    raise typer.Exit(0 if judgement.conforms else 1)
