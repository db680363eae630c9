"""docs/coming_from_torch_onnx.md: its programs run in order, and print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import onnx_parity
import start

DOCUMENT = Path(start.__file__).parent / "docs" / "coming_from_torch_onnx.md"
pytestmark = pytest.mark.usefixtures("registry_as_it_was")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)


#: In a process of its own, because what the programs register in torch stays.
_RUN = """
import sys, warnings, torch, onnx_parity
from onnx_parity.model_zoo.torchvision_import import torchvision

assert torchvision is not None  # Importable from now on, also where its compiled part is missing.
warnings.simplefilter("error", onnx_parity.DroppedWriteWarning)
warnings.simplefilter("ignore", onnx_parity.TracerWarning)
torch.manual_seed(0)
names = {"__name__": "coming_from_torch_onnx"}
for file in sys.argv[1:]:
    exec(compile(open(file).read(), file, "exec"), names)
"""


@pytest.mark.slow
def test_programs_run(tmp_path: Path) -> None:
    programs = blocks("python")
    for number, program in enumerate(programs):
        # In a file of its own, because TorchScript reads the source of what it compiles.
        (tmp_path / f"program_{number}.py").write_text(program)
    files = [f"program_{number}.py" for number in range(len(programs))]
    run = [sys.executable, "-c", _RUN, *files]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(programs) > 12
    printed = done.stdout.splitlines()
    (shown,) = blocks("text")
    for line in shown.splitlines():
        if line.strip() != "...":
            assert any(each.startswith(line.removesuffix("# ...").rstrip()) for each in printed), line


def test_the_unrolled_loop_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(block for block in blocks("python") if "class LoopModel(" in block)
    with pytest.warns(onnx_parity.TracerWarning):
        exec(program, {"torch": torch, "onnx_parity": onnx_parity})
