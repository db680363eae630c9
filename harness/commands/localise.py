"""`parity localise`: the first operator of a failing cell at which the model diverges from PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, Window, expected_errors_in_one_line, localise_cell
from onnx_parity.harness.commands.defaults import Places
from onnx_parity.harness.commands.terminal import print_json, print_text

if TYPE_CHECKING:
    from onnx_parity.harness.localisation.localise import Localisation
    from onnx_parity.harness.localisation.walk import Step


def localise(cell: CellId, seed: Seed, paths: Places = None, window: Window = 32, as_json: AsJson = False) -> None:
    """Find the first operator of a failing cell that diverges: its module, its source line, and how the error grew.

    The program is exported and run piece by piece, each with the runtime's results of the one before, and every result
    is compared with PyTorch's and with float64. Large models need little memory: see --window.

    Exit codes: 0 if the operator was found; 1 if no operator diverges by itself; 2 if the cell passes or there is no
    such cell.

    Examples:

        parity localise "resnet18-float32-opset9-cpu-trace-onnxruntime"

        parity localise "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime" --json
    """
    with expected_errors_in_one_line():
        _, found = localise_cell(cell, paths, seed, window)
        if as_json:
            print_json(_plain(found))
        else:
            print_text("\n".join(found.lines()))
        raise typer.Exit(0 if found.first is not None else 1)


def _plain(found: Localisation) -> dict[str, object]:
    def plain(step: Step) -> dict[str, object]:
        return {
            "number": step.number, "operator": step.operator, "where": step.where, "module": step.module,
            "place": step.place,
            "detail": step.error or step.verdict.detail,
            "metrics": step.verdict.metrics,
        }  # fmt: skip

    return {
        "cell": found.cell,
        "operators": found.operators,
        "growth": [plain(step) for step in found.growth],
        "first": plain(found.first) if found.first else None,
        "recording": found.recording and {"passed": found.recording.passed, "detail": found.recording.detail},
        "declared": found.declared,
        "lowering": found.lowering,
        "blame": found.blame,
        "alone": found.alone and {"passed": found.alone.passed, "detail": found.alone.detail},
    }
