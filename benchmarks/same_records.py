"""The differences between records of the same cells in two runs, apart from times and places."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx_parity.harness.record import Record

#: What differs between two runs of the same cells.
_OF_A_RUN = ("seconds", "began", "elapsed", "export_cpu", "memory", "worker", "options")


def differences(found: Mapping[str, Record], wanted: Mapping[str, Record]) -> dict[str, tuple[str, str, str]]:
    """For each cell of both runs that differs: the first field that does, and its value in either."""
    differing: dict[str, tuple[str, str, str]] = {}
    for cell in sorted(found.keys() & wanted.keys()):
        for name in Record.__struct_fields__:
            one, other = _value(found[cell], name), _value(wanted[cell], name)
            if one != other:
                differing[cell] = (name, f"{one!s:.200}", f"{other!s:.200}")
                break
    return differing


def _value(record: Record, name: str) -> object:
    """A field without what differs between any two runs."""
    if name in _OF_A_RUN:
        return None
    value = getattr(record, name)
    if isinstance(value, str):
        # The run's own folder, and where the files of the project are on a node.
        value = re.sub(r"runs/[0-9-]+", "runs/", value)
        if name == "message":
            # Below this is the stack, whose outer frames are the harness's.
            value = value.partition("Fatal Python error")[0]
        value = re.sub(r"/\S*/(?=\w+\.py)", "", value)
        # OpenVINO counts the operations of all models that a process has loaded: `Broadcast_541085`.
        value = re.sub(r"_\d{5,}\b", "", value)
    return value
