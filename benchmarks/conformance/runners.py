"""Building and calling the runners of the conformance pack that need no Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnxruntime

from onnx_parity.harness.results.content import room_folder

__all__ = [
    "FAULTY_C",
    "FAULTY_JS",
    "RUNNERS",
    "compile_runner",
    "find_library",
    "lacking_for",
    "run_node",
]

RUNNERS = room_folder("harness") / "conformance/runners"
_HERE = Path(__file__).parent
FAULTY_C, FAULTY_JS = _HERE / "faulty.c", _HERE / "faulty.mjs"
#: Names the folder whose `node_modules` has onnxruntime-node and onnxruntime-web.
MODULES = "PARITY_NODE_MODULES"


def find_library() -> Path | None:
    """The library of onnxruntime that its package for Python has."""
    return next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)


def compile_runner(folder: Path, runtime: Path) -> Path:
    """The runner in C with the file of a runtime, built in a folder."""
    made = folder / f"run-{runtime.stem}"
    sources = [*(RUNNERS / f"c/{name}.c" for name in ("runner", "pack", "judge")), runtime]
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{RUNNERS / 'c'}"]
    subprocess.run(["cc", *flags, "-o", made, *sources, "-ldl", "-lm"], check=True, capture_output=True, text=True)
    return made


def _node_modules() -> Path:
    """The folder above `node_modules`: that of the environment variable, or the working directory."""
    return Path(os.environ.get(MODULES, "."))


def lacking_for(adapter: str) -> str:
    """What is missing here to run an adapter of the runner in JavaScript; empty if nothing is."""
    if shutil.which("node") is None:
        return "node is not installed"
    package = "onnxruntime-node" if adapter == "onnxruntime-node" else "onnxruntime-web"
    if adapter.startswith("onnxruntime") and not (_node_modules() / "node_modules" / package).is_dir():
        return f"`npm install {package}` in the folder that {MODULES} names"
    if adapter == "onnxruntime-chromium" and shutil.which("chromium") is None:
        return "chromium is not on PATH"
    return ""


def run_node(
    pack: Path,
    submission: Path,
    adapter: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    script = RUNNERS / "js/run-pack.mjs"
    command: list[str | Path] = [
        "node",
        script,
        pack,
        submission,
        "--runtime",
        adapter,
        "--modules",
        _node_modules(),
        *options,
    ]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, **(environment or {})}, timeout=120
    )
