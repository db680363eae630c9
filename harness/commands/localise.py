"""`parity localise`: the first operator of a failing cell that diverges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import typer

from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, Window, localised, telling

if TYPE_CHECKING:
    from onnx_parity.harness.localisation.localise import Localisation
    from onnx_parity.harness.localisation.walk import Step


def localise(cell: CellId, seed: Seed = 0, window: Window = 32, as_json: AsJson = False) -> None:
    """Find the first operator of a failing cell that diverges: its module, its line, how the error grew to it.

    The program is exported and run in pieces beside torch and float64, the runtime's values going from piece to piece;
    what is held at a time is bounded by the window.

    Exit codes: 0 found; 1 no operator diverges by itself; 2 the cell passes, or there is none.

    Examples:

        parity localise "resnet18-float32-opset9-cpu-trace-onnxruntime"

        parity localise "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime" --json
    """
    with telling():
        _, found = localised(cell, seed, window)
        typer.echo(_as_json(found) if as_json else "\n".join(found.lines()))
        raise typer.Exit(0 if found.first is not None else 1)


def _as_json(found: Localisation) -> bytes:
    def plain(step: Step) -> dict[str, object]:
        return {
            "number": step.number,
            "operator": step.operator,
            "where": step.where,
            "module": step.module,
            "place": step.place,
            "detail": step.error or step.verdict.detail,
            "metrics": step.verdict.metrics,
        }

    return msgspec.json.encode(
        {
            "cell": found.cell,
            "operators": found.operators,
            "growth": [plain(step) for step in found.growth],
            "first": plain(found.first) if found.first else None,
            "recording": found.recording and {"passed": found.recording.passed, "detail": found.recording.detail},
            "alone": found.alone and {"passed": found.alone.passed, "detail": found.alone.detail},
        }
    )
