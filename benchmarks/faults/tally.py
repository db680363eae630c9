"""A fault, and how often it was reported as what it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tally"]


@dataclass(frozen=True)
class Tally:
    """A fault, how often it was injected, and a description of each report that was wrong."""

    fault: str
    injected: int
    wrong: tuple[str, ...]

    def line(self) -> str:
        return f"{self.fault:<40} {self.injected - len(self.wrong):>4} of {self.injected} reported"
