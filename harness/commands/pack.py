"""`parity pack`: writes the conformance pack, for runtimes that are tested without Python."""

from __future__ import annotations

import errno
import os
import sys
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse


class PackList(StrEnum):
    """The lists of `harness/conformance/manifest.py`, as the command line takes them."""

    CORE = "core"
    FULL = "full"
    MODELS = "models"
    LANGUAGE_MODELS = "language-models"
    NODE_TESTS = "node-tests"


class Packed(msgspec.Struct, frozen=True):
    """What `parity pack --json` prints: how many tests there are, of how many operators and versions of them."""

    folder: str
    tests: int
    operators: int
    versions: int
    bytes: int
    #: How many tests an earlier call, that was stopped, had written.
    kept: int
    #: How many are left out, by reason.
    left_out: dict[str, int]
    archive_bytes: int | None


#: A disk or a quota that is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)


def pack(
    folder: Annotated[Path, typer.Argument(help="Where the pack is written. A pack that is there is replaced.")],
    wanted: Annotated[PackList, typer.Option("--list", help="Which tests are written.")] = PackList.CORE,
    select: Annotated[str, typer.Option("-k", help="Only tests whose id matches this pattern: 'Elu-*'.")] = "*",
    tier: Annotated[
        Tier, typer.Option(help="The tier of the matrix whose cells `full` and `models` have, beside single operators.")
    ] = Tier.SMOKE,
    archive: Annotated[bool, typer.Option("--archive", help="Write FOLDER.tar.zst too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write tests as files that any runtime can run, with the tolerance of each element of each output.

    Each test is a folder in the layout of ONNX's node tests. `manifest.json` lists them; docs/conformance.md describes
    it, and how to write a runner. The list `core` has the cases of single operators, written in a minute or two. `full`
    has the models that this exporter makes of operators and networks of PyTorch too, and takes minutes. `node-tests`
    has the tests that onnx itself generates. A pack that was stopped is gone on with when the command is given again.

    Exit codes: 0 if the pack was written; 2 if the folder holds something else, or no test matches.

    Examples:

        parity pack my-pack

        parity pack my-pack -k "Elu-*-float-*"

        parity pack my-pack --list full --archive
    """
    from rich.console import Console
    from rich.progress import track

    from onnx_parity.harness.conformance.manifest import PackError
    from onnx_parity.harness.conformance.pack import write_pack
    from onnx_parity.harness.conformance.planning import plan_cases, plan_cells, plan_node_tests

    node_tests = plan_node_tests() if wanted in (PackList.FULL, PackList.NODE_TESTS) else ()
    if folder.exists() and not folder.is_dir():
        refuse(f"{folder} is a file: give a folder, which is made if there is none.")
    with_cells = wanted not in (PackList.CORE, PackList.NODE_TESTS)
    cells = plan_cells(defaults.declarations(), tier, defaults.seed()) if with_cells else ()
    everything = chain(plan_cases(), node_tests, cells)
    planned = [each for each in everything if wanted in each.lists and fnmatchcase(each.id, select)]
    if not planned:
        refuse(f"No test has an id that matches {select!r}. Ids begin with the operator and its version: 'Elu-22-*'.")
    try:
        shown = track(planned, "tests", console=Console(stderr=True), disable=not sys.stderr.isatty())
        written = write_pack(folder, shown, folder.with_name(f"{folder.name}.tar.zst") if archive else None)
    except PackError as error:
        refuse(str(error))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        on = " With space there, the same command goes on." if error.errno in _FULL else ""
        refuse(f"The pack could not be written to {folder}: {why}.{on}")
    tests = written.manifest.tests
    operators = {name for test in tests for name in test.operators}
    versions = {(name, version) for test in tests for name, version in test.operators.items()}
    packed = Packed(
        str(folder), len(tests), len(operators), len(versions), sum(test.bytes for test in tests), written.kept,
        dict(written.left_out.most_common()), written.archived,
    )  # fmt: skip
    if as_json:
        print_json(packed)
        return
    print_text(f"{folder}: {len(tests)} tests of {len(operators)} operators in {len(versions)} versions, "
               f"{packed.bytes} bytes")  # fmt: skip
    if packed.kept:
        print_text(f"{packed.kept} of them were there already: an earlier call was stopped")
    for reason, number in packed.left_out.items():
        print_text(f"{number} tests are left out: {reason}")
    if written.archived is not None:
        print_text(f"{folder}.tar.zst: {written.archived} bytes")
