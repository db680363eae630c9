"""`parity pack`: writes the conformance pack, for runtimes that are tested without Python."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse


class Written(msgspec.Struct, frozen=True):
    """What `parity pack --json` prints: how many tests there are, of how many operators and versions of them."""

    folder: str
    tests: int
    operators: int
    versions: int
    bytes: int


def pack(
    folder: Annotated[Path, typer.Argument(help="Where the pack is written. A pack that is there is replaced.")],
    select: Annotated[str, typer.Option("-k", help="Only tests whose id matches this pattern: 'Elu-*'.")] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write operator cases as files that any runtime can run, with the tolerance of each element of each output.

    Each test is a folder in the layout of ONNX's node tests. `manifest.json` lists them; docs/conformance.md describes
    it.

    Exit codes: 0 if the pack was written; 2 if the folder holds something else, or no test matches.

    Examples:

        parity pack my-pack

        parity pack my-pack -k "Elu-*-float-*"
    """
    from onnx_parity.harness.conformance.pack import NotAPackError, declared_cases, write_pack

    cases = [case for case in declared_cases() if fnmatchcase(case.id, select)]
    if not cases:
        refuse(f"No test has an id that matches {select!r}. Ids begin with the operator and its version: 'Elu-22-*'.")
    try:
        manifest = write_pack(folder, cases)
    except NotAPackError as error:
        refuse(str(error))
    operators = {name for test in manifest.tests for name in test.operators}
    versions = {(name, version) for test in manifest.tests for name, version in test.operators.items()}
    size = sum(test.bytes for test in manifest.tests)
    if as_json:
        print_json(Written(str(folder), len(manifest.tests), len(operators), len(versions), size))
        return
    print_text(
        f"{folder}: {len(manifest.tests)} tests of {len(operators)} operators in {len(versions)} versions, {size} bytes"
    )
