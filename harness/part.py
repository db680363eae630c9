"""Which of the collected items this invocation runs: a shard of them, or those that a run which is resumed lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.environment import package_versions
from harness.record import RunInfo, Status
from harness.shards import Shard
from harness.store import RunStoreError, read_info, read_records


@dataclass(frozen=True, slots=True)
class Part:
    """Everything, unless one of the two says less."""

    shard: Shard | None = None
    #: Node ids of the cells that the resumed run has.
    done: frozenset[str] = frozenset()

    def split(self, items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
        """The items to run and those to leave, each in their order."""
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            (kept if self._takes(item) else left).append(item)
        return kept, left

    def _takes(self, item: pytest.Item) -> bool:
        if item.nodeid in self.done:
            return False
        # What is no cell shares its work with nobody.
        return self.shard is None or self.shard.holds(getattr(item, "group", item.nodeid))


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
