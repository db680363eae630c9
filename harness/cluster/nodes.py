"""The nodes of a cluster: watching which there are, and starting an actor on one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from onnx_parity.harness.cluster.connection import Connection, answers

#: Seconds between two looks at the nodes, and after which a head that does not answer is lost.
_LOOK, _LOST_AFTER = 1.0, 10.0
#: A node is refused after so many processes in a row that did not start there, or ended without a result.
FAILED_STARTS = 3
#: Seconds to wait for a node if there is none.
WAIT_FOR_NODES = 120.0


def watch_nodes(
    connection: Connection, see: Callable[[list[dict[str, Any]]], None], lose_head: Callable[[], None]
) -> threading.Event:
    """Call `see` with the nodes that Ray lists, again and again, and `lose_head` once if the head of the cluster is
    lost. The watch ends then, or when the event is set that is returned.

    It has a thread of its own, because a question to a head that is lost takes long to fail.
    """
    import ray

    ended = threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not ended.is_set():
            if answers(connection.head, 2.0):
                seen = time.monotonic()
                with suppress(ray.exceptions.RayError, RuntimeError, OSError):
                    see(ray.nodes())
            elif time.monotonic() - seen > _LOST_AFTER:
                lose_head()
                return
            ended.wait(_LOOK)

    threading.Thread(target=watch, daemon=True).start()
    return ended


def actor_on(node: str, kind: type, argument: object, *, gpus: float = 0.0) -> Any:
    """An actor of this class on a node, with a processor of its own. Ray retries nothing: the owner of an actor
    that ends decides what is done with its work.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options: dict[str, Any] = {
        "num_cpus": 1, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
    }  # fmt: skip
    return ray.remote(kind).options(**options).remote(argument)
