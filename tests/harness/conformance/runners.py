"""Calls the runners without Python, for tests; a test whose tools are not here is skipped."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from benchmarks.conformance.runners import (
    RUNNERS,
    Ended,
    Run,
    build_in_c,
    build_in_rust,
    call,
    call_node,
    faulty_runner,
    find_library,
    lacking_for,
)

__all__ = ["Run", "faulty", "in_c", "in_js", "pretending_in", "results"]


def in_c(folder: Path, runtime: Path = RUNNERS / "c/onnxruntime.c") -> Run:
    """The runner in C with the file of a runtime, built in this folder, and with the library of onnxruntime."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    library = find_library("onnxruntime")
    if runtime.parent != Path(__file__).parent and library is None:
        pytest.skip("onnxruntime's package has no library of its own")
    return partial(_call_in_c, build_in_c(folder, runtime), f"{library}")


def _call_in_c(program: Path, library: str, *words: str | Path, **environment: str) -> Ended:
    return call(program, *words, *([] if "--library" in words else ["--library", library]), **environment)


def in_rust(folder: Path, root: Path) -> Run:
    """The runner in Rust with the file of a runtime, built in this folder."""
    if shutil.which("rustc") is None:
        pytest.skip("there is no Rust compiler")
    return partial(call, build_in_rust(folder, root))


def in_js(adapter: str) -> Run:
    if lacking := lacking_for(adapter):
        pytest.skip(lacking)
    return partial(call_node, adapter)


def pretending_in(language: str, folder: Path) -> Run:
    """The runner in a language with a runtime of which a test says what it does."""
    here = Path(__file__).parent
    if language == "js":
        return in_js(str(here / "pretending.mjs"))
    if language == "rust":
        return in_rust(folder, here / "pretending.rs")
    return in_c(folder, here / "pretending.c")


def faulty(name: str, folder: Path) -> Run:
    """A runner whose runtime is wrong for the test that `FAULT` names."""
    run = faulty_runner(name, folder)
    if isinstance(run, str):
        pytest.skip(run)
    return run


def results(out: Path) -> dict[str, tuple[str, str]]:
    lines = map(json.loads, (out / "results.jsonl").read_text("utf-8").splitlines())
    return {line["id"]: (line["result"], line["reason"]) for line in lines}
