"""Calls the runners without Python, for tests; a test whose tools are not here is skipped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.conformance.runners import RUNNERS, compile_runner, find_library, lacking_for, run_node

Ended = subprocess.CompletedProcess[str]
#: Calls a runner: the pack, the submission, further options, and the environment.
Run = Callable[..., Ended]


def in_c(folder: Path, runtime: Path = RUNNERS / "c/onnxruntime.c") -> Run:
    """The runner in C with the file of a runtime, built in this folder, and with the library of onnxruntime."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    library = find_library()
    if runtime.parent != Path(__file__).parent and library is None:
        pytest.skip("onnxruntime's package has no library of its own")
    program = compile_runner(folder, runtime)

    def run(pack: Path, out: Path, *options: str, **environment: str) -> Ended:
        named = [] if "--library" in options else ["--library", str(library)]
        command: list[str | Path] = [program, pack, out, *named, *options]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
        )

    return run


def in_rust(folder: Path, root: Path) -> Run:
    """The runner in Rust with the file of a runtime, built in this folder."""
    if shutil.which("rustc") is None:
        pytest.skip("there is no Rust compiler")
    program = folder / "run-rust"
    subprocess.run(["rustc", "--edition", "2021", "-o", program, root], check=True, capture_output=True, text=True)

    def run(pack: Path, out: Path, *options: str, **environment: str) -> Ended:
        command: list[str | Path] = [program, pack, out, *options]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
        )

    return run


def pretending_in(language: str, folder: Path) -> Run:
    """The runner in a language with a runtime of which a test says what it does."""
    here = Path(__file__).parent
    if language == "js":
        return in_js(str(here / "pretending.mjs"))
    if language == "rust":
        return in_rust(folder, here / "pretending.rs")
    return in_c(folder, here / "pretending.c")


def in_js(adapter: str) -> Run:
    if lacking := lacking_for(adapter):
        pytest.skip(lacking)

    def run(pack: Path, out: Path, *options: str, **environment: str) -> Ended:
        return run_node(pack, out, adapter, options, {"RUNNERS": str(RUNNERS / "js"), **environment})

    return run


def results(out: Path) -> dict[str, tuple[str, str]]:
    lines = map(json.loads, (out / "results.jsonl").read_text("utf-8").splitlines())
    return {line["id"]: (line["result"], line["reason"]) for line in lines}
