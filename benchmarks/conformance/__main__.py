"""Plants faults in a runtime, each for one operator at one size, and counts those for which each runner goes red.

python -m benchmarks.conformance
python -m benchmarks.conformance --faults 20 --runner c
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.conformance.runners import (
    FAULTY_C,
    FAULTY_JS,
    RUNNERS,
    compile_runner,
    find_library,
    lacking_for,
    run_node,
)
from onnx_parity.harness.conformance.manifest import Test, read_manifest
from onnx_parity.harness.conformance.pack import write_pack
from onnx_parity.harness.conformance.planning import plan_cases
from onnx_parity.harness.conformance.values import read_value

_ADAPTERS = ("onnxruntime-node", "onnxruntime-web", "onnxruntime-chromium")


def main(
    faults: Annotated[int, typer.Option(help="How many faults are planted.")] = 100,
    runner: Annotated[str, typer.Option(help="Only this runner: c, or the name of an adapter of JavaScript.")] = "",
) -> None:
    """Plant faults in a runtime, and count those that each runner notices."""
    with tempfile.TemporaryDirectory(prefix="parity-") as made:
        folder = Path(made)
        pack = folder / "pack"
        tests = [each for each in plan_cases() if "core" in each.lists and "x" in each.id]
        write_pack(pack, tests)
        for name, run in _runners(folder).items():
            if runner in ("", name):
                notice_faults(name, run, pack, folder / name, faults)


def _runners(folder: Path) -> dict[str, Callable[..., subprocess.CompletedProcess[str]]]:
    found: dict[str, Callable[..., subprocess.CompletedProcess[str]]] = {}
    library = find_library()
    if library is not None:
        found["c"] = partial(_run_c, compile_runner(folder, FAULTY_C), library)
    for adapter in _ADAPTERS:
        if lacking := lacking_for(adapter):
            typer.echo(f"{adapter} does not run here: {lacking}")
        else:
            found[adapter] = partial(_run_js, adapter)
    return found


def _run_c(program: Path, library: Path, pack: Path, out: Path, test: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [program, pack, out, "--library", library, *(["-k", test] if test else [])]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "FAULT": f"{test or '?'}"}
    )


def _run_js(adapter: str, pack: Path, out: Path, test: str) -> subprocess.CompletedProcess[str]:
    environment = {"FAULT": f"/{test or '?'}/", "REAL": adapter, "RUNNERS": str(RUNNERS / "js")}
    return run_node(pack, out, str(FAULTY_JS), ["-k", test] if test else [], environment)


def notice_faults(
    name: str, run: Callable[..., subprocess.CompletedProcess[str]], pack: Path, folder: Path, faults: int
) -> None:
    """Plant faults in tests that are right without, spread over all of them."""
    folder.mkdir()
    run(pack, folder / "without", "")
    lines = (folder / "without/results.jsonl").read_text(encoding="utf-8").splitlines()
    ran = [line["id"] for line in map(json.loads, lines) if line["result"] == "right"]
    tests = {test.id: test for test in read_manifest(pack).tests}
    right = [test for test in ran if _can_be_wrong(pack, tests, test)]
    chosen = _spread(right, faults)
    missed = [test for number, test in enumerate(chosen) if run(pack, folder / str(number), test).returncode != 1]
    red = len(chosen) - len(missed)
    typer.echo(f"{name}: red for {red} of {len(chosen)} faults; {len(right)} tests are right without them")
    for test in missed:
        typer.echo(f"  not noticed: {test}")


def _can_be_wrong(pack: Path, tests: Mapping[str, Test], test: str) -> bool:
    """Whether the first output has numbers, of which one can be changed."""
    described = tests[test].outputs[0]
    if not described.type.startswith("tensor(") or described.distribution is not None:
        return False
    output = read_value(pack / tests[test].folder / "test_data_set_0/output_0.pb", described.type)
    return isinstance(output, np.ndarray) and output.size > 0 and output.dtype.kind not in "OUS"


def _spread(tests: Sequence[str], number: int) -> list[str]:
    return [tests[at * len(tests) // number] for at in range(number)] if len(tests) > number else list(tests)


if __name__ == "__main__":
    typer.run(main)
