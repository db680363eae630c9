"""What a search and its workers send each other, and what the search keeps in its folder."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Order(msgspec.Struct, frozen=True):
    """What a worker needs to know before its first program."""

    seed: int
    declarations: tuple[str, ...]
    probes: tuple[str, ...]
    exporters: tuple[str, ...]
    opsets: tuple[int, ...]
    #: How often each rough cause has been reduced before.
    reduced: Mapping[str, int]


class Found(msgspec.Struct, frozen=True):
    """One failure of one program."""

    number: int
    point: str
    culprit: str
    fault: str
    detail: str
    rough: str
    #: Empty if failures like it have been reduced often enough.
    cause: str = ""
    #: The source of the reduced program, and the script that shows the fault.
    source: str = ""
    script: str = ""


class Crashed(msgspec.Struct, frozen=True, tag="crashed"):
    """A program at whose point a worker's process died. It is to be reduced, in processes that may die."""

    number: int
    point: str
    detail: str


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """Where a worker is: what is to blame if its process dies."""

    point: str


class Report(msgspec.Struct, frozen=True, tag="report"):
    """What became of a program."""

    number: int
    operators: int
    #: The line that torch refused; empty if it runs.
    refused: str
    finite: bool
    #: Whether inputs were found for which a difference means something.
    steady: bool
    #: How many points it was right at, refused and failed.
    endings: Mapping[str, int]
    #: The processor time that it took, without the reduction of failures.
    seconds: float
    found: tuple[Found, ...] = ()
    #: Of the time, that of other exporters than this project's, and of other probes than onnxruntime.
    others: float = 0.0
    #: Whether its process had looked at others before, so that nothing was imported or sampled for the first time.
    warm: bool = False


class Totals(msgspec.Struct):
    """The sums over all programs."""

    programs: int = 0
    operators: int = 0
    refused: int = 0
    finite: int = 0
    steady: int = 0
    seconds: float = 0.0
    others: float = 0.0
    #: The programs of processes that were warm, and their processor time without that of others.
    warm: int = 0
    warm_seconds: float = 0.0
    endings: dict[str, int] = {}

    def add(self, report: Report) -> None:
        self.programs += 1
        self.operators += report.operators
        self.refused += bool(report.refused)
        self.finite += report.finite
        self.steady += report.steady
        self.seconds += report.seconds
        self.others += report.others
        if report.warm:
            self.warm += 1
            self.warm_seconds += report.seconds - report.others
        for ending, number in report.endings.items():
            self.endings[ending] = self.endings.get(ending, 0) + number


class State(msgspec.Struct):
    """A search that may be gone on with: `state.json` in its folder."""

    order: Order
    versions: Mapping[str, str]
    #: The number of the next program.
    next: int = 0
    totals: Totals = msgspec.field(default_factory=Totals)
    #: How often each cause was found, and each line that torch refused.
    causes: dict[str, int] = {}
    refusals: dict[str, int] = {}
