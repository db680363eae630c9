"""A folder of small files by the hash of what they depend on, which many processes and machines may use at once.

    STORE/3f/3f0c1d...    a line with a checksum, then the content

A file is written under another name and renamed, so that nobody sees a part of it. The checksum is of the key and the
content: a torn or an altered file, and one that belongs to another key, is as good as none. Where the environment
variable `PARITY_REUSE_SECRET` is set, the checksum cannot be computed without it, so that whoever may write to the
folder but does not know it cannot forge an outcome.

The folder is bounded: each of its 256 parts may take its share of the limit, and loses the files that were not used
for longest. A store that cannot be written, as one that is mounted to be read only, is read all the same.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

__all__ = ["MOST_MIB", "SECRET", "Store"]

#: The name of the variable that holds the secret.
SECRET = "PARITY_REUSE_SECRET"
#: The most MiB that a store takes, unless the run says otherwise: the outcomes of a million cells.
MOST_MIB = 8192
_PARTS = 256
_DIGEST_BYTES = 16
#: No outcome is as large. What is, was not written by a store.
_LARGEST = 4 << 20
#: A part is looked through after so many writes to it by one process.
_WRITES = 32
#: Below this share of its limit a part is left alone, once something of it was removed.
_LEFT = 0.9
#: Seconds after which it is noted that a file was used, and after which the file of a writer that died is removed.
_DAY, _HOUR = 86400.0, 3600.0
#: A file takes whole blocks of the disk.
_BLOCK = 4096


class Store:
    """The store in a folder, which is created with the first file."""

    def __init__(self, folder: Path, most_mib: float = MOST_MIB) -> None:
        self._folder = folder
        self._most = most_mib * (1 << 20) / _PARTS
        self._secret = os.environ.get(SECRET, "").encode()[: hashlib.blake2b.MAX_KEY_SIZE]
        self._writes: Counter[Path] = Counter()

    def read(self, key: str) -> bytes | None:
        """The content that was written for a key; None if there is none, or none that is whole."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
                used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        checksum, _, content = data.partition(b"\n")
        if len(data) > _LARGEST or not hmac.compare_digest(checksum, self._checksum(key, content)):
            return None
        if time.time() - used > _DAY:
            with suppress(OSError):
                os.utime(path)
        return content

    def write(self, key: str, content: bytes) -> None:
        """Keep the content for a key, in place of what is there."""
        path = self._path(key)
        unfinished = path.with_name(f".{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(self._checksum(key, content) + b"\n" + content)
            unfinished.replace(path)
        except OSError:
            # What is not kept is found again by the next run.
            with suppress(OSError):
                unfinished.unlink()
            return
        self._writes[path.parent] += 1
        if self._writes[path.parent] % _WRITES == 0:
            self._trim(path.parent)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _checksum(self, key: str, content: bytes) -> bytes:
        hashed = hashlib.blake2b(key.encode() + content, digest_size=_DIGEST_BYTES, key=self._secret)
        return hashed.hexdigest().encode()

    def _trim(self, part: Path) -> None:
        """Remove the files that were not used for longest, until the part is below its limit."""
        found: list[tuple[float, int, str]] = []
        with suppress(OSError), os.scandir(part) as entries:
            for entry in entries:
                # Others remove files meanwhile.
                with suppress(OSError):
                    about = entry.stat()
                    if entry.name.startswith(".") and time.time() - about.st_mtime > _HOUR:
                        os.unlink(entry.path)
                    else:
                        found.append((about.st_mtime, -(-about.st_size // _BLOCK) * _BLOCK, entry.path))
        total = sum(size for _, size, _ in found)
        if total <= self._most:
            return
        for _, size, path in sorted(found):
            if total <= self._most * _LEFT:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size
