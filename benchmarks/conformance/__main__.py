"""Plants faults in a runtime, each for one operator at one size, and counts those for which each runner goes red.

python -m benchmarks.conformance
python -m benchmarks.conformance --faults 20 --runner openvino
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.conformance.runners import ADAPTERS, Run, faulty_runner
from benchmarks.options import choose
from onnx_parity.harness.conformance.manifest import Test, read_manifest
from onnx_parity.harness.conformance.pack import write_pack
from onnx_parity.harness.conformance.planning import plan_cases
from onnx_parity.harness.conformance.values import read_value

_NAMES = ("onnxruntime", "tract", "openvino", *ADAPTERS)
#: The share of the faults that every runner has to notice.
_TARGET = 0.97


def main(
    faults: Annotated[int, typer.Option(min=1, help="How many faults are planted.")] = 100,
    runner: Annotated[list[str] | None, typer.Option(help=f"Only these: {', '.join(_NAMES)}.")] = None,
) -> None:
    """Plant faults in a runtime, and count those that each runner notices.

    Exit codes: 0 each runner notices 97 of 100; 1 one does not, or no test is right without faults; 2 used wrongly, or
    a runner that is named does not run here, or none does.
    """
    names = choose("--runner", runner, _NAMES)
    ran: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="parity-") as made:
        folder = Path(made)
        pack = folder / "pack"
        write_pack(pack, [each for each in plan_cases() if "core" in each.lists and "x" in each.id])
        for name in names:
            (folder / name).mkdir()
            run = faulty_runner(name, folder / name)
            if isinstance(run, str):
                typer.echo(f"{name} does not run here: it needs {run}", err=True)
            else:
                ran.append(notice_faults(name, run, pack, folder / name, faults))
    if not ran or (runner and len(ran) < len(names)):
        raise typer.Exit(2)
    raise typer.Exit(0 if all(ran) else 1)


def notice_faults(name: str, run: Run, pack: Path, folder: Path, faults: int) -> bool:
    """Plant faults in tests that are right without, spread over all of them. Whether enough are noticed."""
    run(pack, folder / "without", FAULT="?")
    lines = (folder / "without/results.jsonl").read_text(encoding="utf-8").splitlines()
    ran = [line["id"] for line in map(json.loads, lines) if line["result"] == "right"]
    tests = {test.id: test for test in read_manifest(pack).tests}
    right = [test for test in ran if _can_be_wrong(pack, tests, test)]
    chosen = _spread(right, faults)
    missed = []
    for number, test in enumerate(chosen):
        if run(pack, folder / str(number), "-k", test, FAULT=test).returncode != 1:
            missed.append(test)
    red = len(chosen) - len(missed)
    typer.echo(f"{name}: red for {red} of {len(chosen)} faults; {len(right)} tests are right without them")
    for test in missed:
        typer.echo(f"  not noticed: {test}")
    return bool(chosen) and red >= _TARGET * len(chosen)


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
