"""What the exporter warns of: a file beside the declarations, strict in both directions.

A change of the exporter may lose a warning that a user needs, or warn of what is right, and a warning alone fails no
run. So `warnings.toml` says of which cells the exporter warns, and with which words. A cell fails that warns of
anything else, and so does one that is named there and does not warn. It is written by hand:

    tier = "default"
    torch = "==2.13.*"

    [programs]
    "write_buffers" = "writes to steps, cache"

    [dynamic_sizes]
    "chunk_of_a_size dynamic" = ["batch != 1", "((batch - 1)//((batch + 2)//3)) + 1 == 3"]

Each table is a file of declarations, and its keys name cells as the texts of an `unsupported.toml` do. `tier` and
`torch` are as there, and so are the cells that it is about. Where there is no such file, no warning fails a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.expecting.expectations import read_if_there
from onnx_parity.harness.expecting.unsupported import EVERY, Refused, entry, is_judged
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.results.environment import has_version

FILE = "warnings.toml"


class Warned(msgspec.Struct, frozen=True):
    """A file, read."""

    tier: Tier
    #: The versions of torch that it holds for, in pip's notation; empty for all.
    torch: str
    #: The cells that a text names, and the words of their warning.
    words: tuple[tuple[Refused, str], ...]

    @property
    def named(self) -> tuple[Refused, ...]:
        return tuple(named for named, _ in self.words)

    def of(self, record: Record) -> frozenset[str]:
        """The words of the warnings that a cell has."""
        at = (record.family, record.case, record.dtype, record.shapes)
        return frozenset(words for named, words in self.words if named.names(*at))

    def holds_here(self) -> bool:
        """Whether it applies to the torch of this environment."""
        return has_version("torch", self.torch)


def load(path: Path) -> Warned | None:
    return read_if_there(path, lambda tables: _of_tables(tables, path))


def _of_tables(tables: dict[str, Any], path: Path) -> Warned:
    tier, torch = msgspec.convert(tables.pop("tier", None), Tier), tables.pop("torch", "")
    SpecifierSet(torch)
    by_family = msgspec.convert(tables, dict[str, dict[str, str | list[str]]])
    words = (
        (entry(family, EVERY, text, path), words)
        for family, table in by_family.items()
        for text, each in table.items()
        for words in ([each] if isinstance(each, str) else each)
    )
    return Warned(tier, torch, tuple(words))


@cache
def load_once(path: Path) -> Warned | None:
    return load(path)


def judge_record(record: Record, directory: Path, is_in_tier: Callable[[Tier], bool]) -> Record:
    """The record with the status that the file beside its declaration gives it."""
    if record.status is not Status.PASSED or not is_judged(record):
        return record
    file = load_once(directory / FILE)
    if file is None:
        return record
    wanted = file.of(record)
    new = [text for text in record.warned if not any(words in text for words in wanted)]
    lost = sorted(words for words in wanted if not any(words in text for text in record.warned))
    # Nearly all cells warn of what the file says. Whether a cell is in a tier takes longer to find out.
    if not (new or lost) or not file.holds_here() or not is_in_tier(file.tier):
        return record
    if new:
        reason = f"the exporter warns, and {FILE} does not say so: {new[0]}"
    else:
        reason = f"{FILE} says that the exporter warns of {lost[0]!r}, and it does not"
    return msgspec.structs.replace(
        record, status=Status.FAILED, stage=Stage.EXPORT, blame=Blame.EXPORTER, reason=reason, error=record.reason
    )
