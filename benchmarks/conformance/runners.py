"""Building and calling the runners of the conformance pack that need no Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from onnx_parity.harness.results.content import room_folder

__all__ = ["ADAPTERS", "RUNNERS", "Ended", "Run", "build_in_c", "build_in_rust", "call", "call_node", "faulty_runner",
           "find_library", "lacking_for"]  # fmt: skip

Ended = subprocess.CompletedProcess[str]
#: Calls a runner: the pack, the submission, further options, and the environment.
Run = Callable[..., Ended]

RUNNERS = room_folder("harness") / "conformance/runners"
_HERE = Path(__file__).parent
#: Names the folder whose `node_modules` has onnxruntime-node and onnxruntime-web.
MODULES = "PARITY_NODE_MODULES"
#: In seconds, for all tests of a list.
_LIMIT = 1800
#: Of the runner in JavaScript.
ADAPTERS = ("onnxruntime-node", "onnxruntime-web", "onnxruntime-chromium", "command")
#: Where packages for Python have the libraries of their runtimes.
_LIBRARIES = {"onnxruntime": "capi/libonnxruntime.so.*", "tract": "*.so", "openvino": "libs/libopenvino_c.so*"}


def find_library(runtime: str) -> Path | None:
    """The library of a runtime that its package for Python has."""
    spec = find_spec(runtime)
    return next(Path(spec.origin).parent.glob(_LIBRARIES[runtime]), None) if spec and spec.origin else None


def build_in_c(folder: Path, runtime: Path, *flags: str) -> Path:
    """The runner in C with the file of a runtime, built in a folder."""
    made = folder / f"run-{runtime.stem}"
    sources = [*(RUNNERS / f"c/{name}.c" for name in ("runner", "pack", "judge")), runtime]
    usual = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{RUNNERS / 'c'}"]
    subprocess.run(["cc", *usual, *flags, "-o", made, *sources, "-ldl", "-lm"], check=True, capture_output=True)
    return made


def build_in_rust(folder: Path, root: Path) -> Path:
    """The runner in Rust with the file of a runtime, built in a folder."""
    made = folder / f"run-{root.stem}"
    subprocess.run(["rustc", "--edition", "2021", "-o", made, root], check=True, capture_output=True)
    return made


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


def _node_modules() -> Path:
    """The folder above `node_modules`: that of the environment variable, or the working directory."""
    return Path(os.environ.get(MODULES, "."))


def call(*command: str | Path, **environment: str) -> Ended:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, **environment}, timeout=_LIMIT
    )


def call_node(adapter: str, pack: Path, submission: Path, *options: str, **environment: str) -> Ended:
    words: list[str | Path] = [
        "node",
        RUNNERS / "js/run-pack.mjs",
        pack,
        submission,
        "--runtime",
        adapter,
        "--modules",
        _node_modules(),
    ]
    return call(*words, *options, RUNNERS=str(RUNNERS / "js"), **environment)


def faulty_runner(name: str, folder: Path) -> Run | str:
    """A runner with a runtime that is wrong for the test that `FAULT` names, or what is missing here to build it.

    It is that in C with `onnxruntime` or `tract`, that in Rust with `openvino`, or an adapter of that in JavaScript.
    """
    if name in ADAPTERS:
        return lacking_for(name) or partial(
            _call_faulty_node, name, _copying_command(folder) if name == "command" else ()
        )
    compiler = "rustc" if name == "openvino" else "cc"
    library = find_library(name)
    if library is None or shutil.which(compiler) is None:
        return f"{compiler}, and the package {name} with its library"
    if name == "openvino":
        program = build_in_rust(folder, _HERE / "faulty.rs")
    else:
        program = build_in_c(folder, _HERE / "faulty.c", f'-DRUNTIME="{name}.c"')

    def run(pack: Path, out: Path, *options: str, **environment: str) -> Ended:
        return call(program, pack, out, "--library", library, *options, **environment)

    return run


def _call_faulty_node(
    adapter: str, more: tuple[str, ...], pack: Path, out: Path, *options: str, FAULT: str, **environment: str
) -> Ended:
    # An adapter is given the path of the model, of which the id is a part.
    return call_node(
        str(_HERE / "faulty.mjs"), pack, out, *more, *options, REAL=adapter, FAULT=f"/{FAULT}/", **environment
    )


def _copying_command(folder: Path) -> tuple[str, str]:
    """A command line that is right without fail, as it copies what is expected."""
    script = folder / "copy-outputs"
    script.write_text('#!/bin/sh\n[ -z "$3" ] || cp "$2"/output_*.pb "$3"\n', encoding="utf-8")
    script.chmod(0o755)
    return "--command", f"{script} {{model}} {{inputs}} {{outputs}}"
