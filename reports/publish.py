"""Moves a finished report into its folder, and removes the files of the earlier report, but no other files.

The pages are first written to a staging folder inside the report's folder, and then moved to their places. The file
`report-files.json` beside them lists the files of the report. The next report replaces or removes the files in this
list and leaves all others unchanged, such as the `.git` and `CNAME` of a checkout for published pages. Reports of
versions without that list are recognised by a mark that each of their pages has.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import msgspec

#: Every page has it in its head. An HTML file without this mark was not written by a report.
GENERATOR = "onnx-parity"
_MARK = f'<meta name="generator" content="{GENERATOR}">'
#: The mark is within this number of characters from the beginning of a page.
_HEAD_LENGTH = 2000

FILE_LIST = "report-files.json"
INDEX = "index.html"
#: The folder in which a report is written.
_STAGING = re.compile(r"\.onnx-parity-report-[0-9a-f]{8}")
#: The files that reports of any version write. Nothing else is removed, whatever a list of files names.
_SUBFOLDERS = ("static", "data", "cases", "operators", "models", "badges", "tests")
_OUR_FILES = re.compile(
    r"(index|case|changes|divergence|exporters|findings|history|pytorch|runtimes|traced)\.html"
    r"|static/(report\.css|icon\.svg|(canvas|case|changes|data|divergence|drawing|exporters|findings|grid|history|index|layout|pytorch|report|runtimes|single|table|traced|words)\.js)"
    r"|data/(called|changes|coverage|divergence|findings|history|names|runtimes|search|subjects|traced|(cases|drawings)-[0-9]+)\.js"
    r"|summary\.(json|md)|junit\.xml|badge\.(json|svg)"
    # Those of a scoreboard.
    r"|operators\.html|operators/[A-Za-z0-9_.-]+\.html|tests/[A-Za-z0-9_.=,+-]+\.tar\.gz|scoreboard\.json"
    r"|badges/[A-Za-z0-9_.-]+\.(svg|json)|static/scoreboard\.js"
    # Pages of earlier versions, one for each case.
    r"|(cases|operators|models)/[A-Za-z0-9_.-]+-[0-9a-f]{8}\.html"
)


class ReportError(Exception):
    """A report that cannot be written. The message names the folder, the reason, and what to do."""


class _FileList(msgspec.Struct, frozen=True):
    """The content of `report-files.json`."""

    generator: str
    #: Relative to the report's folder, with forward slashes.
    files: list[str]


@contextmanager
def publish(out: Path) -> Iterator[Path]:
    """Yield a folder to write a report into, whose files are moved to `out` when the block ends without an error.

    `out` may be new, empty, or contain an earlier report, whose files are replaced. After an error it is unchanged.
    """
    place = out.resolve()
    if place.exists() and not place.is_dir():
        raise ReportError(
            f"The report cannot be written to {out}: this is a file, but a report is a folder. "
            "Choose another name, or remove the file."
        )
    is_new = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _locked(place):
                _remove_abandoned(place)
                _refuse_foreign_folder(place, out)
                with _staging_folder(place) as staging:
                    pages = staging / "pages"
                    pages.mkdir()
                    yield pages
                    _refuse_foreign_files(_files_below(pages), _files_of_report(place), place, out)
                    _install(pages, place, staging)
        finally:
            if is_new:
                # Fails if the report is in it.
                with suppress(OSError):
                    place.rmdir()
    except OSError as error:
        # `shutil` collects the errors of all files.
        why = (
            error.args[0][0][2] if isinstance(error, shutil.Error) else f"{error.strerror} ({error.filename or place})"
        )
        raise ReportError(
            f"The report could not be written to {out}: {why}. "
            "Free space there, or choose another folder with --out. The files that were there before are unchanged."
        ) from error


def is_report(folder: Path) -> bool:
    """Whether the folder contains a report: its list of files, or a first page with the mark."""
    return _read_list(folder) is not None or _bears_mark(folder / INDEX)


def _refuse_foreign_folder(place: Path, out: Path) -> None:
    if not is_report(place) and any(place.iterdir()):
        raise ReportError(
            f"The report cannot be written to {out}: the folder contains files, but no report of onnx-parity. "
            "Choose a folder that is new or empty, or one with an earlier report, which the new one replaces."
        )


# Staging: a folder that is removed at the end of the block that writes to it, or by the next report.


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Let one process at a time write to the folder. It removes a staging folder that another process has left."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Network file systems may not support locks of folders. Two reports at once in one folder are rare.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _staging_folder(place: Path) -> Iterator[Path]:
    staging = place / f".onnx-parity-report-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_abandoned(place: Path) -> None:
    """Remove the staging folders of reports whose process was killed, of this version and of earlier versions."""
    for folder in _real_folders(place):
        if _STAGING.fullmatch(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    # Earlier versions used a folder beside the report's, and moved the earlier report there with all other files.
    beside = re.compile(rf"\.{re.escape(place.name)}-[0-9a-f]{{8}}(-old)?")
    for folder in _real_folders(place.parent):
        if beside.fullmatch(folder.name):
            with suppress(OSError):
                files = _files_by_kind(folder)
                for file in files:
                    (folder / file).unlink(missing_ok=True)
                _remove_empty_folders(files | {f"{each}/" for each in _SUBFOLDERS}, folder)
                # Fails if the folder has a file that was not written by a report, which is left there.
                folder.rmdir()


def _real_folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except PermissionError:
        return []


# Moving the pages to their places.


def _install(pages: Path, place: Path, staging: Path) -> None:
    """Move every file of `pages` to `place`, and those of the earlier report to the staging folder, or undo both."""
    new = _files_below(pages)
    earlier = _files_of_report(place)
    replaced = staging / "replaced"
    # Until all files are in their places, the list has the old and the new ones, so that the next report knows all
    # files even if this process is killed.
    _write_list(place, {*earlier, *new}, staging)
    done: list[tuple[Path, Path]] = []
    whole = False
    try:
        # The first page comes last, so that it only links to pages that exist.
        for file in sorted({*earlier, *new}, key=lambda file: (file == INDEX, file)):
            if file in earlier:
                done.append(_moved(place / file, replaced / file))
            if file in new:
                done.append(_moved(pages / file, place / file))
        _write_list(place, new, staging)
        whole = True
    finally:
        if not whole:
            for source, target in reversed(done):
                target.rename(source)
            if earlier:
                _write_list(place, earlier, staging)
            else:
                (place / FILE_LIST).unlink(missing_ok=True)
        _remove_empty_folders(earlier if whole else new, place)


def _moved(source: Path, target: Path) -> tuple[Path, Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    return source, target


def _refuse_foreign_files(new: Collection[str], earlier: Collection[str], place: Path, out: Path) -> None:
    if os.path.lexists(place / FILE_LIST) and _read_list(place) is None:
        new = {*new, FILE_LIST}
    for file in sorted(new):
        if _leads_elsewhere(file, place) or (os.path.lexists(place / file) and file not in earlier):
            raise ReportError(
                f"The report cannot be written to {out}: {out / file} exists, and was not written by a report. "
                "Move that file, or choose another folder with --out. Nothing was changed."
            )


def _files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _remove_empty_folders(files: Collection[str], place: Path) -> None:
    """Remove those of the report's own subfolders that are empty."""
    for folder in {PurePosixPath(file).parent for file in files} - {PurePosixPath(".")}:
        with suppress(OSError):
            (place / folder).rmdir()


# The files of a folder that were written by a report.


def _files_of_report(folder: Path) -> set[str]:
    """The files of the report in a folder: those in its list, or, for old versions, known kinds of files."""
    listed = _read_list(folder)
    if listed is not None:
        return {file for file in listed if _OUR_FILES.fullmatch(file) and _is_own(folder, file)}
    return _files_by_kind(folder) if _bears_mark(folder / INDEX) else set()


def _files_by_kind(folder: Path) -> set[str]:
    found = [*folder.iterdir(), *(path for each in _real_folders(folder) for path in each.iterdir())]
    names = (path.relative_to(folder).as_posix() for path in found)
    return {name for name in names if _OUR_FILES.fullmatch(name) and _is_own(folder, name)}


def _is_own(folder: Path, file: str) -> bool:
    """Whether a report wrote the file. A page without the mark was not."""
    path = folder / file
    if _leads_elsewhere(file, folder) or path.is_symlink() or not path.is_file():
        return False
    return path.suffix != ".html" or _bears_mark(path)


def _leads_elsewhere(file: str, folder: Path) -> bool:
    """Whether one of the folders in the path of a file is a link."""
    return any((folder / parent).is_symlink() for parent in PurePosixPath(file).parents)


def _bears_mark(page: Path) -> bool:
    try:
        with page.open(encoding="utf-8", errors="replace") as opened:
            return _MARK in opened.read(_HEAD_LENGTH)
    except OSError:
        return False


def _read_list(folder: Path) -> set[str] | None:
    """The files in the folder's list; None if there is no list."""
    try:
        listed = msgspec.json.decode((folder / FILE_LIST).read_bytes(), type=_FileList)
    except (OSError, msgspec.DecodeError):
        return None
    return set(listed.files) if listed.generator == GENERATOR else None


def _write_list(folder: Path, files: Collection[str], staging: Path) -> None:
    aside = staging / FILE_LIST
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(_FileList(GENERATOR, sorted(files)))) + b"\n")
    aside.replace(folder / FILE_LIST)
