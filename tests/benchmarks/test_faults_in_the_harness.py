"""Faults in the harness: each can still be planted, in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

import start
from benchmarks.faults.in_the_harness import FAULTS, plant

_ROOT = Path(start.__file__).parent


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_of_a_file_made_wrong(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    copy.write_text((_ROOT / fault.file).read_text("utf-8"), "utf-8")
    plant(fault, tmp_path)
    text = copy.read_text("utf-8")
    compile(text, fault.file, "exec")
    assert fault.wrong in text
    assert all((_ROOT / "tests" / each).exists() for each in fault.tests)
    if fault.right not in fault.wrong:
        with pytest.raises(ValueError, match=r"0 times, and not once"):
            plant(fault, tmp_path)
