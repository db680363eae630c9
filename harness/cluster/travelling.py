"""The files of a project that are sent to the nodes of a cluster: its declarations, exporters and settings."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

#: Folders that no cell needs. Those whose names begin with a dot are left out too.
_LEFT_OUT = frozenset({"runs", "__pycache__", "node_modules", "venv"})
#: Ray takes archives of up to 500 MiB.
_LARGEST = 400 << 20


class TooLargeError(ValueError):
    """The project cannot be sent. The message says what is large."""


@contextmanager
def archive_of(root: Path, also: Mapping[str, bytes] = MappingProxyType({})) -> Iterator[Path]:
    """An archive of the project's files, and of others with their content. It has fixed dates, because Ray sends one
    of the same content only once.
    """
    files = sorted(project_files(root))
    sizes = {file: (root / file).stat().st_size for file in files}
    if sum(sizes.values()) > _LARGEST:
        largest = max(files, key=sizes.__getitem__)
        raise TooLargeError(
            f"the files of {root} are {sum(sizes.values()) >> 20} MiB, and Ray sends at most {_LARGEST >> 20}; the "
            f"largest is {largest}. Name what no cell needs in .gitignore."
        )
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        path = Path(folder) / "project.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            of_files = ((file.as_posix(), (root / file).read_bytes()) for file in files)
            for name, content in itertools.chain(of_files, also.items()):
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        yield path


def project_files(root: Path) -> Iterator[Path]:
    """The files below a folder, relative to it: those that git knows or does not ignore; without git, all of them.

    Links to folders are left out: what they lead to is there under its own name.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    names = os.fsdecode(listed.stdout).split("\0") if listed.returncode == 0 else None
    for name in _walk(root) if names is None else filter(None, names):
        path = Path(name)
        if (root / path).is_file() and not _LEFT_OUT.intersection(path.parts[:-1]):
            yield path


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.relpath(os.path.join(folder, file), root) for file in files)
