"""Importing the exporter is cheap: no runtime, no compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_import_brings_no_runtime_and_no_compiler() -> None:
    heavy = ("onnxruntime", "torch._dynamo", "torch._inductor", "onnxscript", "torchvision")
    program = f"import sys, exporter; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout == "[]\n"
