"""Connecting to a Ray cluster, or starting one on this machine. Errors are messages of one line."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnx_parity.harness.cluster.travelling import archive_of
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.results.content import room_folder

#: The address that stands for RAY_ADDRESS or, without that, for a cluster of this machine.
RAY = "ray"
INSTALL = "pip install 'onnx-parity[ray]'"
#: How Ray words the end of an actor that ended with its node.
OF_A_LOST_NODE = "node has died"
#: Ray sets this variable for the processes of a job that was sent with its Jobs API.
IN_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
#: Seconds in which a cluster has to answer.
_ANSWERS = 10.0
#: The object store of a cluster of this machine. Records do not go through it.
_STORE = 80 << 20


class ClusterError(Exception):
    """No cluster can be used. The message says which, why, and what to do."""


@dataclass(frozen=True)
class Connection:
    """A cluster that this process is connected to."""

    #: The address of its head, which has to be reachable as long as the cluster lives.
    head: tuple[str, int]
    #: Whether it was started here, and ends with this process.
    is_own: bool

    @property
    def lost(self) -> str:
        """The message if the head is lost."""
        return f"the head of the Ray cluster, {self.head[0]}:{self.head[1]}, does not answer any more"


def address_of(given: str) -> str:
    """The address of a cluster, or empty for one of this machine."""
    return os.environ.get("RAY_ADDRESS", "") if given == RAY else given


def connect(given: str, root: Path, *, workers: int = 0) -> Connection:
    """Connect to the cluster at an address, and send it the files of the project; or start one on this machine."""
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    address = address_of(given)
    if not address:
        here = os.pathsep.join(filter(None, (str(_importable()), os.environ.get("PYTHONPATH", ""))))
        environment = {"env_vars": {"PYTHONPATH": here}}
        # Elsewhere workers have a low priority, so that they do not slow down the cluster itself.
        os.environ.setdefault("RAY_worker_niceness", "0")
        try:
            ray.init(
                address="local",
                num_cpus=workers or None,
                include_dashboard=False,
                object_store_memory=_STORE,
                runtime_env=environment,
                **quiet,
            )
        except (RuntimeError, OSError, ValueError) as error:
            raise ClusterError(f"no Ray cluster could be started on this machine: {one_line(str(error))}") from error
        return Connection(_head(), is_own=True)
    try:
        if IN_JOB in os.environ:
            # The files have been sent with the job that this process belongs to.
            ray.init(address=address, **quiet)
            return Connection(_head(), is_own=False)
        with archive_of(root) as archive:
            ray.init(address=address, runtime_env={"working_dir": str(archive)}, **quiet)
    except (ConnectionError, RuntimeError, OSError, ValueError) as error:
        raise ClusterError(f"the Ray cluster at {address} cannot be used: {one_line(str(error))}") from error
    return Connection(_head(), is_own=False)


def answers(head: tuple[str, int], within: float) -> bool:
    """Whether something listens at an address."""
    try:
        socket.create_connection(head, within).close()
    except OSError:
        return False
    return True


def words_of(error: BaseException) -> str:
    """The line of one of Ray's errors that says what happened."""
    from ray.exceptions import RayTaskError

    if isinstance(error, RayTaskError):
        return one_line(str(error.cause))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if OF_A_LOST_NODE in line] or lines or [type(error).__name__]
    return one_line(telling[0])


def refuse_unusable(given: str) -> None:
    """Raise an error if Ray is not installed, or if nothing answers at the address. Nothing slow is imported."""
    if find_spec("ray") is None:
        raise ClusterError(f"--on {given} needs Ray, which is not installed here: {INSTALL}")
    if address := address_of(given):
        _refuse_silent(address)


def _refuse_silent(address: str) -> None:
    """Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon and address in ("auto", "local"):
        return
    if not (host and port.isdecimal()):
        raise ClusterError(
            f"--on {address} is no address of a Ray cluster: write {RAY}, or host:port, such as 10.0.0.5:6379."
        )
    if not answers((host, int(port)), _ANSWERS):
        raise ClusterError(
            f"nothing answers at {address}, where --on or RAY_ADDRESS says that a Ray cluster is. `ray status` on its "
            "head tells whether it runs."
        )


def _head() -> tuple[str, int]:
    import ray

    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    return host, int(port)


def _importable() -> Path:
    """The folder from which `onnx_parity` is imported."""
    folder = room_folder("harness").parent
    return folder.parent if folder.name == "onnx_parity" else folder
