"""The progress of a run: how many of its cells have been run, how fast, and how long the rest will take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: The rate is averaged over this many seconds, because similar cells are adjacent, and some take 100 times longer.
_SPAN = 30.0
#: The time left follows from the rate since the first cell, which changes slowly: a rate of seconds becomes a hundredth
#: where models follow operators. It is not shown before this many seconds.
_FIRST_ESTIMATE = 5.0


@dataclass
class Pace:
    """Counts cells and computes their rate."""

    total: int = 0
    done: int = 0
    failed: int = 0
    #: Where they are run, if that is not here: `4 nodes`.
    where: str = ""
    #: When the first cell ended, and the last.
    _began: float | None = None
    _now: float = 0.0
    #: Times at which cells ended and the number of cells by then, at most one entry per tenth of a second.
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def count(self, now: float, *, failed: bool) -> None:
        self.done += 1
        self.failed += failed
        self._began = now if self._began is None else self._began
        self._now = now
        if not self._marks or now - self._marks[-1][0] > 0.1:
            self._marks.append((now, self.done))
        while now - self._marks[0][0] > _SPAN and len(self._marks) > 2:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        """Cells per second, over the last seconds."""
        if not self._marks:
            return 0.0
        (then, before), (now, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def _seconds_left(self) -> float | None:
        """An estimate from the rate of all cells so far; None while these are too few."""
        elapsed = self._now - self._began if self._began is not None else 0.0
        return (self.total - self.done) * elapsed / (self.done - 1) if elapsed >= _FIRST_ESTIMATE else None

    def line(self) -> str:
        """`1200 of 20562 cells, 151/s, 2 min 8 s left; 3 failed`."""
        parts = [f"{self.done} of {self.total} cells" if self.total else f"{self.done} cells"]
        if rate := self.rate:
            parts.append(f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            parts += [f"on {self.where}"] if self.where else []
            if self.total > self.done and (seconds := self._seconds_left()) is not None:
                parts.append(f"{spell_seconds(seconds)} left")
        return ", ".join(parts) + (f"; {self.failed} failed" if self.failed else "")


def spell_seconds(seconds: float) -> str:
    """128 as `2 min 8 s`."""
    whole = max(1, round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
