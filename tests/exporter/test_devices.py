"""Programs on a GPU: they are recorded, lowered, folded and written as those on the CPU are."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.exporter.on_gpu import PROGRAMS


def test_programs_on_a_gpu_are_exported_as_those_on_the_cpu_are() -> None:
    command = [sys.executable, "-m", "tests.exporter.on_gpu"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(found.stdout)
    assert len(told) >= len(PROGRAMS)
    assert {name: wrong for name, wrong in told.items() if wrong} == {}
