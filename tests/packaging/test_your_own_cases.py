"""docs/your_own_cases.md, followed to the letter: from the built wheel, in a new environment, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import start

ROOT = Path(start.__file__).parent
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The first line of a block that is a file.
_FILE = re.compile(r"# (\S+\.(?:py|toml))\n")
_ENDING = re.compile(r"  # ends with (\d)$")


@pytest.mark.slow
def test_the_guide_holds_from_the_first_line_to_the_last(environment: Path, tmp_path: Path) -> None:
    # pytest is the environment's own, though its package lies elsewhere.
    (environment / "pytest").write_text(f'#!/bin/sh\nexec "{environment}/python" -m pytest "$@"\n')
    (environment / "pytest").chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GITHUB_ACTIONS")}
    variables |= {"PATH": f"{environment}{os.pathsep}{variables['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    commands = []
    for language, block in _BLOCK.findall((ROOT / "docs" / "your_own_cases.md").read_text(encoding="utf-8")):
        if file := _FILE.match(block):
            (tmp_path / file[1]).write_text(block)
            continue
        assert language == "sh", block
        for line in block.replace("\\\n", "").splitlines():
            ending = _ENDING.search(line)
            command = _ENDING.sub("", line)
            ran = subprocess.run(
                command, shell=True, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
            )
            said = f"$ {command}\n{ran.stdout}{ran.stderr}"
            assert ran.returncode == (int(ending[1]) if ending else 0), said
            assert "Traceback" not in ran.stderr, said
            assert str(ROOT) not in said
            commands.append(command.split()[:2])
    used = {words[1] for words in commands if words[0] == "parity"}
    assert used >= {"init", "list", "run", "report", "query", "repro", "exporters", "expect", "gate"}
    assert (tmp_path / "summary.md").read_text().startswith("## ✅ parity: no regression")
