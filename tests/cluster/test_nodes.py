"""The nodes of a cluster are looked at again and again, until its head is lost."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from onnx_parity.harness.cluster import nodes
from onnx_parity.harness.cluster.connection import Connection
from onnx_parity.harness.cluster.nodes import watch_nodes


class RayError(Exception):
    pass


def test_nodes_are_seen_until_the_head_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Any] = [[{"NodeID": "1"}], RayError("busy"), [{"NodeID": "2"}]]
    seen: list[str] = []
    lost = threading.Event()

    def list_nodes() -> list[dict[str, Any]]:
        found = listed.pop(0)
        if isinstance(found, RayError):
            raise found
        return found  # type: ignore[no-any-return]

    ray = SimpleNamespace(nodes=list_nodes, exceptions=SimpleNamespace(RayError=RayError))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(nodes, "answers", lambda head, within: bool(listed))
    monkeypatch.setattr(nodes, "_LOOK", 0.01)
    monkeypatch.setattr(nodes, "_LOST_AFTER", 0.1)
    connection = Connection(("10.0.0.5", 6379), is_own=False)
    ended = watch_nodes(connection, lambda alive: seen.extend(each["NodeID"] for each in alive), lost.set)
    assert lost.wait(10.0)
    assert seen == ["1", "2"]
    assert not ended.is_set()
