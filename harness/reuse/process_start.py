"""When this process began: what it has imported is not older than its files are, if they are older than this."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

__all__ = ["process_start"]

#: The clock of the system ticks a hundred times a second, and so do the times of files.
_TICK = 0.02


@cache
def process_start() -> float:
    """In seconds since 1970. Of a forked process it is that of the one which asked first; where the system does not
    tell, the time of the first call."""
    now = time.time()
    try:
        # The name of the process, in brackets, may hold anything.
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return min(now, now - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot + _TICK)
    except (OSError, AttributeError, ValueError):
        return now
