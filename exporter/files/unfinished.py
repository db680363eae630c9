"""Files that are being written, under names of their own beside their final places, and folders of sessions.

A process that is killed leaves such a file or folder behind. The next export to the same place removes it: the name
tells which process on which machine wrote it, and a process that runs is never disturbed.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import zlib
from contextlib import suppress
from pathlib import Path

__all__ = ["name_unfinished", "remove_unfinished"]

_NAME = re.compile(r"\.(?P<final>.+)\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}\.unfinished")


def name_unfinished(final: Path) -> Path:
    """An unused name in the folder of `final`, for this process to write to."""
    return final.with_name(f".{final.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.unfinished")


def remove_unfinished(final: Path) -> None:
    """Remove what processes of this machine that have ended left of an export to `final`."""
    with suppress(OSError), os.scandir(final.parent) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if found is None or found["final"] != final.name or found["machine"] != _machine():
                continue
            if not _runs(int(found["process"])):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _runs(process: int) -> bool:
    """Whether there is such a process. Windows has no such question: there, every process counts as running."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # It belongs to another user.
        return True
    return True
