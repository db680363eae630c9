"""docs/coming_from_torch_onnx.md: its programs run in order, and print what it shows."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

import onnx_parity
import start
from onnx_parity.model_zoo.torchvision_import import torchvision

DOCUMENT = Path(start.__file__).parent / "docs" / "coming_from_torch_onnx.md"
pytestmark = pytest.mark.usefixtures("registry_as_it_was")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)


def test_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert torchvision is not None  # Importable from now on, also where its compiled part is missing.
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "coming_from_torch_onnx"}
    programs = blocks("python")
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.DroppedWriteWarning)
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        torch.manual_seed(0)
        for number, program in enumerate(programs):
            # In a file of its own, because TorchScript reads the source of what it compiles.
            file = tmp_path / f"program_{number}.py"
            file.write_text(program)
            exec(compile(program, file, "exec"), names)
    assert len(programs) > 12
    printed = capsys.readouterr().out.splitlines()
    (shown,) = blocks("text")
    for line in shown.splitlines():
        if line.strip() != "...":
            assert any(each.startswith(line.removesuffix("# ...").rstrip()) for each in printed), line


def test_the_unrolled_loop_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(block for block in blocks("python") if "class LoopModel(" in block)
    with pytest.warns(onnx_parity.TracerWarning):
        exec(program, {"torch": torch, "onnx_parity": onnx_parity})
