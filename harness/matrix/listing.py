"""All cases of some declarations with the ids of their cells, which are kept from one listing to the next.

A listing imports torch and every file of declarations, which takes seconds. It holds until something changes that it
may depend on: a file beside a module that was imported for it, the installed packages, or the version of Python. The
last one of a project is in `runs/`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from onnx_parity.harness.axes import Selection

__all__ = ["Listed", "read_listing", "take_listing"]

_FILE = ".listing.json"
#: The files that modules read besides Python's own: settings, cells of the smoke tier, surveys of torch's databases.
_READ = (".py", ".toml", ".json", ".txt")


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """A case, and the ids of its cells."""

    #: The name of its declaration.
    name: str
    case: str
    file: str
    line: int
    cells: list[str]


class _Kept(msgspec.Struct, frozen=True):
    key: str
    #: Folders, and what their files were.
    folders: dict[str, str]
    listed: list[Listed]


def read_listing(runs: Path, places: Sequence[Path], selection: Selection) -> list[Listed] | None:
    """The listing that is kept in a folder of runs, if it is of these places and this selection and still holds."""
    try:
        kept = msgspec.json.decode((runs / _FILE).read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        return None
    if kept.key != _key(places, selection):
        return None
    return kept.listed if all(_state_of(Path(name)) == state for name, state in kept.folders.items()) else None


def take_listing(
    runs: Path | None, places: Sequence[Path], selection: Selection, wanted: Callable[[str], bool] | None = None
) -> list[Listed]:
    """The cases of the declarations with wanted names. If all are wanted, they are kept in this folder of runs."""
    # Imported here, because these import torch, which is slow.
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    listed: dict[tuple[str, str, str, int], list[str]] = {}
    for place in places:
        for name, declaration in declared_under(place, wanted):
            for cell in cells_of(name, declaration, selection):
                key = name, cell.case.label, str(declaration.file), declaration.line
                listed.setdefault(key, []).append(cell.id)
    found = [Listed(*key, ids) for key, ids in listed.items()]
    if runs is not None and wanted is None:
        states = {str(folder): _state_of(folder) for folder in _folders(places)}
        kept = msgspec.json.encode(_Kept(_key(places, selection), states, found))
        # A folder that cannot be written to has no listing, and two commands at once each write a whole one.
        with suppress(OSError):
            runs.mkdir(exist_ok=True)
            other = runs / f"{_FILE}.{os.getpid()}"
            other.write_bytes(kept)
            other.replace(runs / _FILE)
    return found


def _key(places: Sequence[Path], selection: Selection) -> str:
    return repr((sys.version, [str(place.resolve()) for place in places], selection))


def _folders(places: Sequence[Path]) -> Iterator[Path]:
    """The folders that a listing depends on: those of packages, and those of all modules that belong to none."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in names))
    yield from installed
    files = [Path(file) for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))]
    folders = [place if place.is_dir() else place.parent for place in places]
    own = dict.fromkeys((*(folder.resolve() for folder in folders), *(file.parent for file in files)))
    yield from (folder for folder in own if not any(folder.is_relative_to(each) for each in installed))


def _state_of(folder: Path) -> str:
    """What the files of a folder are now. Of the folder of packages, when one was last added or removed."""
    try:
        if folder.name in ("site-packages", "dist-packages"):
            return str(folder.stat().st_mtime_ns)
        with os.scandir(folder) as entries:
            files = [(each.name, each.stat()) for each in entries if each.name.endswith(_READ)]
    except OSError as error:
        return str(error.strerror)
    now = repr(sorted((name, found.st_mtime_ns, found.st_size) for name, found in files))
    return blake2b(now.encode("utf-8", "replace"), digest_size=12).hexdigest()
