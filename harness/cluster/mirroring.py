"""A folder of runs as lines of text: the log of a job carries what is written there home.

A `Mirror` says what has been written since it was last asked, and a `Copy` writes the same below another folder. The
lines of a log may be read again from the beginning, because each says where in its file it belongs.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from onnx_parity.harness.cluster.messages import Piece

#: Begins the lines of a log that carry a piece of a file.
MARK = "parity-piece "
#: The most bytes of a file that a line carries.
_PIECE = 256 << 10
#: Files that only grow: records and nodes. Any other file that has changed is sent again as a whole.
_GROWING = ".jsonl"
#: What is of use only where it was written, or can be made again.
_LEFT_OUT = ("in-flight-", "stderr-", "records.parquet", ".")


class CopyError(Exception):
    """A piece cannot be written, or the folder has other content than the one that is copied to it."""


@dataclass
class _Sent:
    """How much of a file has been sent."""

    inode: int = 0
    size: int = 0
    changed: int = -1


class Mirror:
    """Says what is written below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent: dict[str, _Sent] = {}

    def lines(self) -> Iterator[str]:
        """What has been written since the last time."""
        for name in self._files():
            yield from self._pieces(name)

    def _files(self) -> list[str]:
        """The files, those first that say what a run is."""
        found = []
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [each for each in folders if not each.startswith(".") and each != "report"]
            below = Path(folder).relative_to(self._folder)
            found += [(below / each).as_posix() for each in files if not each.startswith(_LEFT_OUT)]
        return sorted(found, key=lambda name: (not name.endswith("run.json"), name.endswith("end.json"), name))

    def _pieces(self, name: str) -> Iterator[str]:
        sent = self._sent.setdefault(name, _Sent())
        try:
            file = (self._folder / name).open("rb")
        except FileNotFoundError:
            return  # It was removed meanwhile.
        with file:
            now = os.fstat(file.fileno())
            grows = name.endswith(_GROWING)
            same = now.st_ino == sent.inode and now.st_size >= sent.size
            if same and now.st_size == sent.size and (grows or now.st_mtime_ns == sent.changed):
                return
            if not (same and grows):
                sent.size = 0
            sent.inode, sent.changed = now.st_ino, now.st_mtime_ns
            file.seek(sent.size)
            while True:
                data = file.read(_PIECE)
                if grows and (end := data.rfind(b"\n") + 1):
                    data = data[:end]
                elif grows and len(data) < _PIECE:
                    return  # A line that is being written.
                if data or sent.size == 0:
                    yield _line(Piece(name, sent.size, data))
                if not data:
                    return
                sent.size += len(data)
                file.seek(sent.size)


class Copy:
    """Writes the lines of a mirror below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: The names of the runs that were copied, in the order in which they came.
        self.runs: list[str] = []

    @property
    def last(self) -> Path:
        """The folder of the run that came last; that of all runs if none has come."""
        return self._folder / self.runs[-1] if self.runs else self._folder

    def take(self, line: str) -> None:
        """Write the piece that a line carries. Raises `CopyError` if the file has other content, because the run was
        continued here.
        """
        try:
            self._take(line)
        except OSError as error:
            raise CopyError(f"{self._folder} cannot be written to: {error.strerror}") from error

    def _take(self, line: str) -> None:
        data = zlib.decompress(base64.b64decode(line.removeprefix(MARK)))
        piece = msgspec.msgpack.decode(data, type=Piece)
        path = self._folder / piece.path
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise CopyError(f"the job has sent a file that lies outside of its run: {piece.path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        grows = path.name.endswith(_GROWING)
        new = not path.exists() or (piece.start == 0 and not grows)
        with path.open("w+b" if new else "r+b") as file:
            file.seek(piece.start)
            if grows:
                there = file.read(len(piece.data))
                if not piece.data.startswith(there):
                    raise CopyError(
                        f"{path} has other records than the job has sent: the run was continued here. Give another "
                        "folder with --runs."
                    )
                file.seek(piece.start)
            file.write(piece.data)
        name = piece.path.partition("/")[0]
        if name not in self.runs and piece.path == f"{name}/run.json":
            self.runs.append(name)
            self._link(name)

    def _link(self, name: str) -> None:
        aside = self._folder / f".{name}-{os.getpid()}"
        aside.symlink_to(name)
        os.replace(aside, self._folder / "last")


def _line(piece: Piece) -> str:
    return MARK + base64.b64encode(zlib.compress(msgspec.msgpack.encode(piece), 6)).decode()
