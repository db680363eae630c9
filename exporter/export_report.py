"""The files that describe an export: those of `report`, `profile` and `dump_exported_program`."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import onnx_ir as ir
import torch

from onnx_parity import __version__
from onnx_parity.exporter.captured_program import Capture
from onnx_parity.exporter.errors import ArgumentError, ExportError, WriteError
from onnx_parity.exporter.graph.graph import Graph
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.progress import progress

__all__ = ["PROGRAM_FILE", "REPORT_FILE", "Steps"]

REPORT_FILE = "onnx_export_report.md"
PROGRAM_FILE = "onnx_export_program.txt"
_IN_WORDS = {
    "record": "recording the program",
    "lower": "writing it as ONNX operators",
    "verify": "verifying the model",
    "write": "writing the model's files",
}


class Steps:
    """Collects the contents of a report, and writes it when the export ends, whether or not it succeeded."""

    def __init__(self, folder: str | os.PathLike[str], *, report: bool, profile: bool, dump: bool) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise ArgumentError(f"artifacts_dir is {folder!r}: give the path of a folder")
        self._folder = Path(folder)
        self._report = report or profile
        self._profile = profile
        self._dump = dump
        self._seconds: dict[str, float] = {}
        self._operators: Sequence[str] = ()
        self._program: ONNXProgram | None = None
        #: One line on the terminal for all steps.
        self._progress = progress("exporting the program")
        if (self._report or dump) and not self._folder.is_dir():
            raise WriteError(f"artifacts_dir is {self._folder}, which is not an existing folder: create it first")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            with progress(_IN_WORDS[name]):
                yield
        finally:
            self._seconds[name] = time.perf_counter() - start

    def captured(self, capture: Capture) -> None:
        if self._report:
            self._operators = capture.operators
        if self._dump:
            (self._folder / PROGRAM_FILE).write_text(_listing(capture.graph))

    def exported(self, program: ONNXProgram) -> None:
        self._program = program

    def __enter__(self) -> Steps:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, traceback)
        if self._report and (error is None or isinstance(error, ExportError)):
            (self._folder / REPORT_FILE).write_text("\n".join(self._lines(error)) + "\n")

    def _lines(self, error: BaseException | None) -> Iterator[str]:
        import onnx

        yield f"# ONNX export: {'failed' if error else 'succeeded'}\n"
        yield f"onnx-parity {__version__}, torch {torch.__version__}, onnx {onnx.__version__}, "
        yield f"onnx_ir {ir.__version__}, Python {platform.python_version()}\n"
        if error is not None:
            yield f"## {type(error).__name__}\n\n```\n{error}\n```\n"
        if self._profile:
            yield "## Steps\n\n| step | seconds |\n|---|---|"
            yield from (f"| {name} | {seconds:.3f} |" for name, seconds in self._seconds.items())
            yield ""
        if self._operators:
            yield "## Operators of the program\n"
            yield from (f"- `{name}`" for name in self._operators)
            yield ""
        if self._program is not None:
            counts = Counter((node.domain, node.op_type) for node in self._program.model.graph)
            yield "## Operators of the model\n\n| operator | nodes |\n|---|---|"
            yield from (f"| `{domain or 'onnx'}::{op}` | {count} |" for (domain, op), count in counts.most_common())
            yield f"\n## Graph\n\n```\n{self._program}\n```"


def _listing(graph: Graph) -> str:
    """The recorded program, with one line for each operator and its arguments by name."""
    numbers: dict[int, str] = {id(item.value): item.name for item in graph.inputs}

    def spelled(argument: object) -> str:
        if isinstance(argument, list):
            return f"[{', '.join(map(spelled, argument))}]"
        name = numbers.get(id(argument)) or getattr(argument, "name", "") if hasattr(argument, "constant") else None
        return f"%{name or 'literal'}" if name is not None else str(argument)

    lines = [", ".join(f"%{item.name}: {item.value.dtype}{list(item.value.shape)}" for item in graph.inputs)]
    for number, node in enumerate(graph.nodes):
        for place, output in enumerate(node.outputs):
            numbers[id(output)] = f"{number}" if len(node.outputs) == 1 else f"{number}.{place}"
        results = ", ".join(f"%{numbers[id(v)]}: {v.dtype}{list(v.shape)}" for v in node.outputs if v is not None)
        arguments = ", ".join(f"{name}={spelled(argument)}" for name, argument in node.arguments.items())
        lines.append(f"{results} = {node.op}({arguments})  # {node.origin.full}".rstrip())
    lines.append(f"return {', '.join(map(spelled, graph.outputs))}")
    return "\n".join(lines) + "\n"
