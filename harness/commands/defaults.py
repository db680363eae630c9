"""What the commands work on by default: the project of the working directory, and its last run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from onnx_parity.harness.commands.terminal import refuse, warn_of_shortcomings
from onnx_parity.harness.project import Project, SettingsError, find_project
from onnx_parity.harness.record import Record
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info, read_records

T = TypeVar("T")

#: The pattern that all cases match.
EVERYTHING = "*"

Places = Annotated[
    list[Path] | None, typer.Argument(help="Files or folders of declarations. Default: those of the settings.")
]


def project() -> Project:
    try:
        return find_project(Path.cwd())
    except SettingsError as error:
        refuse(str(error))


def declarations(named: Sequence[Path] | None = None) -> tuple[Path, ...]:
    """The files and folders of declarations, as they are seen from here: those that are named, or the project's."""
    found = project()
    found.make_importable()
    for path in named or ():
        if not path.exists():
            refuse(f"{path} does not exist: name files and folders of declarations, or none for those of the project.")
    return tuple(named or map(from_here, found.declarations))


def places_and_patterns(words: Sequence[str] | None) -> tuple[tuple[Path, ...], list[str]]:
    """The files and folders of declarations among the words of a command line, or the project's; and the patterns for
    names of cases, or one that all match."""
    named = [Path(word) for word in words or () if _is_place(word)]
    return declarations(named), [word for word in words or () if not _is_place(word)] or [EVERYTHING]


def _is_place(word: str) -> bool:
    """Whether a word of the command line is a file or a folder of declarations, and no pattern."""
    return word.endswith(".py") or Path(word).is_dir()


def matches(patterns: Sequence[str], label: str) -> bool:
    """Whether a pattern matches. `*` and `?` are wildcards; the brackets of a label are not."""
    return any(fnmatchcase(label, pattern.replace("[", "[[]")) for pattern in patterns)


def may_match(patterns: Sequence[str], name: str) -> bool:
    """Whether a pattern can match a case of the declaration of this name, with which its label begins."""
    beginnings = [re.split(r"[*?]", pattern, maxsplit=1)[0] for pattern in patterns]
    return any(name.startswith(beginning) or beginning.startswith(name) for beginning in beginnings)


def runs() -> Path:
    return from_here(project().runs)


def last() -> Path:
    return runs() / "last"


def of_runs(folders: list[Path] | None, judge: Callable[[Iterator[Record]], T]) -> T:
    """The result of `judge` for the records of these runs, or else of the last one. What a run lacks is printed too."""
    folders = folders or [last()]
    try:
        for run in folders:
            read_info(run)
        found = [read_records(run) for run in folders]
        judged = judge(record for records in found for record in records)
    except RunStoreError as error:
        refuse(str(error))
    for run, records in zip(folders, found, strict=True):
        warn_of_shortcomings(run, records.damage)
    return judged


def seed() -> int:
    return project().settings.seed or 0


def policy() -> Path | None:
    settings = project().settings
    return project().root / settings.policy if settings.policy is not None else None


def no_declarations() -> str:
    """What to do where there is nothing to test."""
    return (
        "There are no declarations here: no [tool.parity] in a pyproject.toml names any, and no Python file of this "
        "folder has any. `parity init` writes a first one."
    )


def from_here(path: Path) -> Path:
    """The path relative to the working directory, where it lies below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
