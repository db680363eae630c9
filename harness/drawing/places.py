"""Where a node comes from, for a reader on any machine: without the folders that this machine has it in."""

from __future__ import annotations

import os
from pathlib import Path

from onnx_parity.exporter.graph.graph import Origin

#: Operators that a case names are called here, which tells nothing of the case.
_HARNESS = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_PACKAGES = f"{os.sep}site-packages{os.sep}"


def line_of(origin: Origin) -> str:
    """The user's line: below the working directory, or from the package on; empty if it is none of the user's."""
    if not origin.file or origin.file.startswith(_HARNESS):
        return ""
    here = f"{os.getcwd()}{os.sep}"
    file = origin.file.removeprefix(here) if origin.file.startswith(here) else origin.file.rpartition(_PACKAGES)[2]
    return f"{file if not os.path.isabs(file) else os.path.basename(file)}:{origin.line}"
