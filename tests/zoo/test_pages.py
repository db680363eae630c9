"""The programs on the pages about models of transformers and diffusers run, and assert what the pages say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

import onnx_parity

# Both import torchvision if it is installed: see there how it has to be imported beside some builds of torch.
if importlib.util.find_spec("torchvision") is not None:
    importlib.import_module("onnx_parity.model_zoo.torchvision_import")


@pytest.mark.parametrize(
    ("page", "library", "count"),
    [
        ("language_models", "transformers", 7),
        pytest.param("speech_models", "transformers", 4, marks=pytest.mark.slow),
        pytest.param("diffusion_models", "diffusers", 4, marks=pytest.mark.slow),
    ],
)
def test_programs_of_a_page(
    page: str, library: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library, reason="install the extra 'zoo'")
    text = (Path(onnx_parity.__file__).parents[1] / "docs" / f"{page}.md").read_text()
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    programs = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for program in programs:
        exec(program, names)
    assert len(programs) == count
