"""Which of the collected items this invocation runs.

A shard of them, those that a run which is resumed lacks, or those that a change since an earlier
run can have touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from onnx_parity.harness.matrix.shards import Shard
from onnx_parity.harness.matrix.since import Since
from onnx_parity.harness.record import Record, RunInfo, Status
from onnx_parity.harness.results.environment import package_versions
from onnx_parity.harness.store import RunStoreError, read_info, read_records

if TYPE_CHECKING:
    from onnx_parity.harness.pytest_plugin.items import CellItem


@dataclass(frozen=True, slots=True)
class Part:
    """Everything, unless one of the three says less."""

    shard: Shard | None = None
    #: Node ids of the cells that the resumed run has.
    done: frozenset[str] = frozenset()
    since: Since | None = None

    def split(self, items: Sequence[pytest.Item]) -> Split:
        split = Split([], [], [])
        for item in items:
            # What is no cell shares its work with nobody.
            if item.nodeid in self.done or not (self.shard is None or self.shard.holds(_group(item))):
                split.left.append(item)
            elif self.since is not None and hasattr(item, "cell") and (record := self.since.carry(_cell_item(item))):
                split.left.append(item)
                split.carried.append(record)
            else:
                split.run.append(item)
        return split


@dataclass(frozen=True, slots=True)
class Split:
    """The items to run and those to leave, each in their order, and the records that stand for some of these."""

    run: list[pytest.Item]
    left: list[pytest.Item]
    carried: list[Record]


def _group(item: pytest.Item) -> str:
    return _cell_item(item).group if hasattr(item, "cell") else item.nodeid


def _cell_item(item: pytest.Item) -> CellItem:
    return cast("CellItem", item)


def resumable(run: Path) -> tuple[RunInfo, frozenset[str]]:
    """The run to go on with, and the cells that it has. Those that crashed are run again."""
    info = read_info(run)
    here = package_versions()
    changed = [
        f"{package} {version} (here {here.get(package, 'not installed')})"
        for package, version in info.packages.items()
        if here.get(package) != version
    ]
    if changed:
        raise RunStoreError(
            f"{run} was begun with {', '.join(changed)}. A run has one environment: begin a new one, or restore that."
        )
    done = frozenset(record.nodeid for record in read_records(run) if record.status is not Status.CRASHED)
    return info, done
