"""The part of the collected items that this invocation runs.

This may be all of them, one shard, the cells that a resumed run lacks, or the cells that a change since an earlier run
may affect. A resumed run (`--resume`) continues in the environment in which it began.
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
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info, read_lines

if TYPE_CHECKING:
    from onnx_parity.harness.pytest_plugin.items import CellItem


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the items to run: all of them, unless a field restricts it."""

    shard: Shard | None = None
    #: Node ids of the cells that the resumed run contains already.
    done: frozenset[str] = frozenset()
    since: Since | None = None

    def split(self, items: Sequence[pytest.Item]) -> Split:
        split = Split([], [], [], {})
        for item in items:
            # An item that is not a cell is a group of its own.
            if item.nodeid in self.done or not (self.shard is None or self.shard.holds(_group(item))):
                split.left.append(item)
                continue
            carried = self.since.carry(_cell_item(item)) if self.since is not None and hasattr(item, "cell") else ""
            if isinstance(carried, Record):
                split.left.append(item)
                split.carried.append(carried)
            else:
                split.run.append(item)
                split.rerun[item.nodeid] = carried
        return split


@dataclass(frozen=True, slots=True)
class Split:
    """The items to run and why, the items to leave out, and the records carried over for some of those left out."""

    run: list[pytest.Item]
    left: list[pytest.Item]
    carried: list[Record]
    #: Why an item is run though an earlier run may have its outcome, by its node id; empty if there is no such run.
    rerun: dict[str, str]


def _group(item: pytest.Item) -> str:
    return _cell_item(item).group if hasattr(item, "cell") else item.nodeid


def _cell_item(item: pytest.Item) -> CellItem:
    return cast("CellItem", item)


def resumable(run: Path) -> tuple[RunInfo, frozenset[str]]:
    """The run to resume, and the node ids of its cells, without those that crashed, which are run again."""
    info = read_info(run)
    here = package_versions(info.packages)
    changed = [
        f"{package} {version} (here {here.get(package, 'not installed')})"
        for package, version in info.packages.items()
        if here.get(package) != version
    ]
    if changed:
        raise RunStoreError(
            f"{run} cannot be resumed, because the installed packages have changed: it was started with "
            f"{', '.join(changed)}. Install those versions, or start a new run."
        )
    done = frozenset(record.nodeid for record in read_lines(run) if record.status is not Status.CRASHED)
    return info, done
