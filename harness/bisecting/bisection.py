"""Which of a row of releases fail, found by halving: from the first that fails to the first that passes again.

It assumes that a defect came once and went once. What the tested releases say is told with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from onnx_parity.harness.bisecting.history import History
from onnx_parity.harness.bisecting.subjects import Answer, Verdict

__all__ = ["Bisection", "bisect"]


@dataclass(slots=True)
class Bisection:
    """The answer, and the releases that were tested for it."""

    history: History = field(default_factory=History)
    tested: dict[Version, Answer] = field(default_factory=dict)

    @property
    def words(self) -> str:
        if self.history.words:
            return self.history.words
        return "no release that was tested fails"


def bisect(releases: Sequence[Version], at: Version | None, test: Callable[[Version], Answer]) -> Bisection:
    """Search releases, from the oldest to the newest, beginning with the one at which it is known to fail, if any."""
    found = Bisection()

    def fails(position: int) -> bool:
        version = releases[position]
        if version not in found.tested:
            found.tested[version] = test(version)
        return found.tested[version].verdict is Verdict.FAILS

    last = len(releases) - 1
    candidates = ([releases.index(at)] if at in releases else []) + [last, 0]
    anchor = next((position for position in candidates if fails(position)), None)
    if anchor is None:
        return found
    first = 0 if fails(0) else _boundary(0, anchor, fails)
    beyond = None if fails(last) else _boundary(last, anchor, fails)
    since, fixed_in = str(releases[first]), ""
    if first == 0 or found.tested[releases[first - 1]].verdict is not Verdict.PASSES:
        since += " or earlier"
    if beyond is not None:
        good = beyond + 1
        # A release in between may be one that says nothing.
        while good < last and not fails(good) and found.tested[releases[good]].verdict is Verdict.OTHER:
            good += 1
        if good <= last and not fails(good) and found.tested[releases[good]].verdict is Verdict.PASSES:
            fixed_in = str(releases[good]) + ("" if good == beyond + 1 else " or earlier")
    found.history = History(since, fixed_in)
    return found


def _boundary(right: int, wrong: int, fails: Callable[[int], bool]) -> int:
    """The position next to `right` that fails, between one that does not and one that does."""
    while abs(wrong - right) > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if fails(middle) else (middle, wrong)
    return wrong
