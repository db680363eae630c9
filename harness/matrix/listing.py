"""The cases of files of declarations with the ids of their cells, which are kept from one listing to the next.

To list a file, torch and the file are imported, which takes seconds. The listing of a file holds until the content of
something changes that it depends on: the file, what was imported and read for it (`cases/watching.py`), or those of the
harness's files that listings use; and until a package is installed. Those of a project are in `runs/`, in one file for
each selection of cells that was asked for lately.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import Selection
from onnx_parity.harness.cases.watching import PACKAGE, own_files, state_of, watch
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.project import files_of, may_declare

__all__ = ["Listed", "ListedFile", "list_files"]

_FILES = ".listing-*.json"
#: How many selections are kept.
_KEPT = 6


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """A case, and the ids of its cells."""

    #: The name of its declaration.
    name: str
    case: str
    line: int
    cells: list[str]


class ListedFile(msgspec.Struct, frozen=True):
    """What a file declares."""

    file: str
    #: The names of all declarations, also of those that have no cells.
    names: list[str]
    cases: list[Listed]
    #: What the listing depends on, and what it was.
    states: dict[str, str]


class _Kept(msgspec.Struct, frozen=True):
    key: str = ""
    #: The files of this project that listings use, and what they were.
    own: dict[str, str] = {}
    files: dict[str, ListedFile] = {}


def list_files(
    places: Sequence[Path], selection: Selection, runs: Path | None, wanted: Callable[[str], bool] = lambda name: True
) -> list[ListedFile]:
    """The listings of the files of declarations that may declare a wanted name, kept in this folder of runs."""
    files = {str(file.resolve()): file for place in places for file in files_of(place)}
    kept = _read_kept(runs, selection)
    states = _States()
    known = {path: one for path in files if (one := kept.files.get(path)) and states.hold(one.states)}
    left = [file for path, file in files.items() if path not in known and may_declare(file, wanted)]
    taken = _take(left, selection)
    if taken and runs is not None:
        own = _States().of(own_files())
        kept = _Kept(_key(selection), {**kept.own, **own}, {**kept.files, **taken})
        _write_kept(runs, selection, kept)
    known |= taken
    return [known[path] for path in files if path in known]


def _take(files: Sequence[Path], selection: Selection) -> dict[str, ListedFile]:
    if not files:
        return {}
    # Imported here, because these import torch.
    from onnx_parity.harness.cases.declarations import declared_in_file
    from onnx_parity.harness.matrix.cells import cells_of

    found: list[tuple[str, list[str], list[Listed]]] = []
    for file in files:
        names: list[str] = []
        cells: dict[tuple[str, str, int], list[str]] = {}
        for name, declaration in declared_in_file(file):
            names.append(name)
            for cell in cells_of(name, declaration, selection):
                cells.setdefault((name, cell.case.label, declaration.line), []).append(cell.id)
        found.append((str(file.resolve()), names, [Listed(*key, ids) for key, ids in cells.items()]))
    states = _States()
    return {path: ListedFile(path, names, cases, states.of(_needs_of(path))) for path, names, cases in found}


def _needs_of(path: str) -> list[str]:
    named = (str(Path(path).parent / each) for each in (named_cells.SMOKE, named_cells.COSTLY))
    needs = (path, *named, *watch().needs([path]))
    # A package that is installed changes the folder that `_key` has.
    return [each for each in needs if not each.startswith(PACKAGE)]


class _States:
    """The states of what listings depend on. Each is looked up once."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def of(self, names: Collection[str]) -> dict[str, str]:
        for each in names:
            if each not in self._now:
                self._now[each] = state_of(each, Path())
        return {each: self._now[each] for each in names}

    def hold(self, states: Mapping[str, str]) -> bool:
        return self.of(states) == states


def _read_kept(runs: Path | None, selection: Selection) -> _Kept:
    """The listings that are kept, or none if they are of another selection or of another harness."""
    if runs is None:
        return _Kept()
    try:
        kept = msgspec.json.decode(_file(runs, selection).read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        return _Kept()
    return kept if kept.key == _key(selection) and _States().hold(kept.own) else _Kept()


def _file(runs: Path, selection: Selection) -> Path:
    return runs / _FILES.replace("*", blake2b(repr(selection).encode(), digest_size=8).hexdigest())


def _write_kept(runs: Path, selection: Selection, kept: _Kept) -> None:
    # A folder that cannot be written to has no listing, nor has a file with a name that is no text; and two commands at
    # once each write a whole one.
    with suppress(OSError, UnicodeEncodeError):
        runs.mkdir(exist_ok=True)
        file = _file(runs, selection)
        other = file.with_suffix(f".{os.getpid()}")
        other.write_bytes(msgspec.json.encode(kept))
        other.replace(file)
        for old in sorted(runs.glob(_FILES), key=lambda each: each.stat().st_mtime_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)


def _key(selection: Selection) -> str:
    return repr((sys.version, selection, [*_installed()]))


def _installed() -> Iterator[int]:
    """When a package was last added or removed."""
    for folder in dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")):
        with suppress(OSError):
            yield os.stat(folder).st_mtime_ns
