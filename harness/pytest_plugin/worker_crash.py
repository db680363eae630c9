"""The record of a cell whose pytest worker was killed, which the worker could not write itself.

Cells run in processes of their own (`cell_process.py`), so a crashing cell does not end its worker. A worker can only
be killed by the user or the system.
"""

from __future__ import annotations

import subprocess
from typing import Any

import msgspec
import pytest

from onnx_parity.harness.pytest_plugin.failure_block import block
from onnx_parity.harness.pytest_plugin.matrix import Matrix
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.running.child_process import how_it_ended
from onnx_parity.harness.running.last_words import last_words
from onnx_parity.harness.running.run_log import stderr_path
from onnx_parity.harness.store import read_in_flight, read_records


def record_crash(nodeid: str, report: pytest.TestReport, matrix: Matrix) -> Record | None:
    """Write and return the record of the cell during which a worker was killed; None if it was not running a cell.

    If the cell had ended before the worker could report it, its record is returned. The next cell, which had begun by
    then, is run again by another worker.
    """
    worker = getattr(report, "node", None)
    if worker is None or not matrix.folder.is_dir():  # The first cell makes the folder.
        return None
    record = read_in_flight(matrix.folder, worker.gateway.id)
    if record is None or record.nodeid != nodeid:
        return next((each for each in read_records(matrix.folder) if each.nodeid == nodeid), None)
    ending = _ending(worker)
    words = last_words(stderr_path(matrix.folder, worker.gateway.id))
    record = msgspec.structs.replace(
        record, status=Status.CRASHED, reason=f"worker {worker.gateway.id} {ending} in stage {record.stage}"
    )
    record = msgspec.structs.replace(record, message=block(record, [record.reason, *words]))
    matrix.log.finish(record)
    return record


def _ending(worker: Any) -> str:
    """How the worker ended: `was killed by SIGSEGV`."""
    # execnet has no public attribute for its child process.
    process = getattr(getattr(worker.gateway, "_io", None), "popen", None)
    if not isinstance(process, subprocess.Popen):
        return "died"
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "lost its connection"
    return how_it_ended(code)
