"""Whether exported language models choose eager's tokens, with every kind of cache: `python -m benchmarks.generation`.

`generate` of transformers decodes with the model, and then with the exported models in its place, greedily, prompts
that are padded at the left. All are small and have random weights.
"""

from __future__ import annotations

import time
import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.generation.decoding import equal_tokens, exported
from benchmarks.generation.models import ROWS, subject_of
from benchmarks.options import choose
from onnx_parity.harness.one_line import error_line

app = typer.Typer(add_completion=False)


@app.command()
def main(
    models: Annotated[
        list[str] | None, typer.Option(help="Models by their names or patterns; may be given several times.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens are chosen for each sample.")] = 64,
    opset: Annotated[int, typer.Option(help="The opset.")] = 18,
    target: Annotated[str, typer.Option(help="The target of the export; nothing for ONNX's operators alone.")] = "",
) -> None:
    """Count the tokens that are those of eager, with one sample and with three. Exits with 1 if one is not."""
    warnings.simplefilter("ignore")
    table = Table("model", "cache", "exported models", "as eager: 1 sample", "3 samples", "seconds")
    reasons, all_equal = [], True
    names = choose("--models", models, dict.fromkeys(name for name, _, _ in ROWS))
    for name, cache, merged in ROWS:
        if name not in names:
            continue
        begun = time.perf_counter()
        subject = subject_of(name, cache)
        try:
            calls = exported(subject, merged, opset, target or None)
            found = [equal_tokens(subject, calls, batch, tokens) for batch in (1, 3)]
        except Exception as error:  # noqa: BLE001  Whatever an export or a run raises is its answer.
            found = []
            reasons.append(f"{name}, {cache}: {error_line(error)}")
        all_equal &= bool(found) and all(equal == count for equal, count in found)
        shown = [f"{equal} of {count}" for equal, count in found] or ["-", "-"]
        form = "one" if merged else "two"
        table.add_row(name, cache, form, *shown, f"{time.perf_counter() - begun:.1f}")
    console = Console()
    console.print(table)
    for reason in reasons:
        console.print(reason, markup=False, highlight=False)
    if not all_equal:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
