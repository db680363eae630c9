"""Reduces a failing cell to the smallest part of its program that still fails, written as source code that can be run.

The search begins with the first operator that diverges. If it is correct for torch's own values, the operators that
compute its inputs are added, the nearest first and twice as many each time, until the piece fails by itself. Then all
operators are removed, in halves, without which it still fails.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.errors import ExportError
from onnx_parity.exporter.graph.graph import SymbolSource, Value
from onnx_parity.exporter.tracing.symbolic_number import SymbolicNumber
from onnx_parity.exporter.verification.bundle import Bundle, write_bundle
from onnx_parity.exporter.verification.oracle import Expected, Verdict
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.judging.bundle import runner_of
from onnx_parity.harness.localisation.localise import (
    Localisation,
    Suspect,
    dynamic_sizes,
    expected_outputs,
    judge_piece,
    piece_of,
    torch_values,
)
from onnx_parity.harness.localisation.pieces import Piece, Recording, needs
from onnx_parity.harness.results.environment import describe_run
from onnx_parity.harness.subjects.runtime_interface import NoKernelError
from onnx_parity.harness.transformations.transformation import DeclinedError, TransformationError, floor_of


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A piece that fails, but does not fail if any of its operators is left out and replaced by torch's values."""

    piece: Piece
    inputs: list[torch.Tensor]
    #: The inputs with which it is exported.
    example: list[torch.Tensor]
    expected: list[Expected]
    #: A description of the failure.
    detail: str


def reduce(suspect: Suspect, found: Localisation) -> Reduced | None:
    """The smallest piece around the first divergence that fails by itself; None if no piece does."""
    if found.first is None:
        return None
    fails = _Failing(suspect)
    numbers = _grow(suspect.recording, found.first.number, fails)
    if numbers is None:
        return None
    numbers = _shrink(numbers, fails)
    piece = piece_of(suspect.recording, numbers)
    inputs, example = torch_values(suspect, piece.taken)
    expected = expected_outputs(piece, inputs, signed_zeros=suspect.signed_zeros)
    return Reduced(piece, inputs, example, expected, fails.detail(numbers))


class _Failing:
    """Determines whether a piece fails, and with which error. Results are cached."""

    def __init__(self, suspect: Suspect) -> None:
        self._suspect = suspect
        self._known: dict[tuple[int, ...], str] = {}

    def __call__(self, numbers: Sequence[int]) -> bool:
        return bool(self.detail(numbers))

    def detail(self, numbers: Sequence[int]) -> str:
        key = tuple(numbers)
        if key not in self._known:
            self._known[key] = self._ask(key)
        return self._known[key]

    def _ask(self, numbers: tuple[int, ...]) -> str:
        try:
            verdict: Verdict = judge_piece(self._suspect, numbers)
        except (NoKernelError, DeclinedError):
            return ""  # The cell itself was not refused, so this is another failure than its.
        except Exception as error:  # noqa: BLE001  Exporter and runtime may raise anything: that is a failure, too.
            return f"{type(error).__name__}: {error}"
        return verdict.detail


def _grow(recording: Recording, last: int, fails: Callable[[Sequence[int]], bool]) -> list[int] | None:
    """The operator and as many of the nearest operators that compute its inputs as are needed for a failure."""
    feeding = list(_ancestors(recording, last))
    taken = 0
    while True:
        numbers = sorted([*feeding[:taken], last])
        if fails(numbers):
            return numbers
        if taken >= len(feeding):
            return None
        taken = max(1, 2 * taken)


def _ancestors(recording: Recording, last: int) -> Iterator[int]:
    """The operators that compute the inputs of one, directly or indirectly, the nearest first."""
    made = {output: number for number, node in enumerate(recording.nodes) for output in node.outputs if output}
    seen = {last}
    pending = [last]
    while pending:
        number = max(pending)
        pending.remove(number)
        if number != last:
            yield number
        for value in needs(recording.nodes[number]):
            source = made.get(value)
            if source is not None and source not in seen:
                seen.add(source)
                pending.append(source)


def _shrink(numbers: list[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Remove the operators without which it still fails: halves first, then quarters, at last one by one. The last
    operator is kept."""
    size = max(1, (len(numbers) - 1) // 2)
    while True:
        start = 0
        while start < len(numbers) - 1:
            without = numbers[:start] + numbers[min(start + size, len(numbers) - 1) :]
            if len(without) < len(numbers) and fails(without):
                numbers = without
            else:
                start += size
        if size == 1:
            return numbers
        size //= 2


# --- as source code ---------------------------------------------------------------------------------------------------


def source_of(reduced: Reduced, title: str) -> str:
    """The piece as a Python module: `Program`, whose weights come from `tensors.pt` beside it, and its `INPUTS`."""
    piece = reduced.piece
    names: dict[Value, str] = dict(zip(piece.taken, piece.input_names, strict=True))
    weights = {id(tensor): name for name, tensor in piece.named_buffers(remove_duplicate=False)}

    def spelled(argument: object) -> str:
        if isinstance(argument, Value):
            if argument.constant is not None:
                return f"self.{weights[id(argument.constant)]}"
            return names[argument]
        if isinstance(argument, (list, tuple)):
            return f"[{', '.join(map(spelled, argument))}]"
        if isinstance(argument, SymbolicNumber):
            return _formula(argument, names)
        if isinstance(argument, torch.device):
            return f"torch.device({str(argument)!r})"
        if isinstance(argument, float) and not math.isfinite(argument):
            return f'float("{argument}")'
        plain = isinstance(argument, (torch.dtype, torch.layout, torch.memory_format))
        return str(argument) if plain else repr(argument)

    lines = []
    for number, node in enumerate(piece.nodes):
        for position, output in enumerate(node.outputs):
            if output is not None:
                names[output] = f"v{number}" if len(node.outputs) == 1 else f"v{number}_{position}"
        results = ", ".join(names[output] if output is not None else "_" for output in node.outputs)
        given = ", ".join(f"{name}={spelled(argument)}" for name, argument in node.arguments.items())
        place = piece.recording.place(node)
        lines.append(f"        {results} = torch.ops.{node.op}({given})" + (f"  # {place}" if place else ""))
    outputs = "".join(f"{names[value]}, " for value in piece.outputs)
    return _SOURCE.format(
        title=title,
        dynamic=dynamic_sizes(piece, reduced.example, reduced.inputs),
        inputs=", ".join(piece.input_names),
        body="\n".join(lines),
        outputs=outputs.rstrip(),
    )


def _formula(number: SymbolicNumber, names: Mapping[Value, str]) -> str:
    """A symbolic number as Python code over the sizes and values that it is computed from."""
    spelled = {str(symbol): _spelled_source(source, names[source.value]) for symbol, source in number.sources}
    return re.sub(r"\w+", lambda word: spelled.get(word[0], word[0]), str(number.expression))


def _spelled_source(source: SymbolSource[Value], name: str) -> str:
    if source.axis is None:
        return f"{name}.item()"
    size = f"{name}.shape[{source.axis}]"
    return size if source.of_size(1) == 1 else f"(({size} - {source.offset}) // {source.factor})"


_SOURCE = '''"""{title}"""

import math
from pathlib import Path

import torch

TENSORS = torch.load(Path(__file__).with_name("tensors.pt"), weights_only=True)
#: The inputs for which it fails, those with which it is exported, and the dynamic sizes.
INPUTS = tuple(TENSORS["inputs"])
EXAMPLE = tuple(TENSORS["example"])
DYNAMIC_AXES = {dynamic}


class Program(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name, tensor in TENSORS["weights"].items():
            self.register_buffer(name, tensor)

    def forward(self, {inputs}):
{body}
        return ({outputs})
'''


def write_reduced(suspect: Suspect, reduced: Reduced, folder: Path) -> None:
    """Write the piece as a failure bundle, with its source `program.py` and the tensors that it needs, `tensors.pt`."""
    piece, cell = reduced.piece, suspect.cell
    title = f"reduced from {cell.id}: {len(piece.nodes)} of {len(suspect.recording.nodes)} operators\n{reduced.detail}"
    model = None
    # If the piece cannot be exported, the bundle has no model, which it states.
    with suppress(ExportError, DeclinedError, TransformationError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = suspect.execute.model(piece, reduced.example, reduced.inputs, None).model
    feeds = {name: to_array(tensor) for name, tensor in zip(piece.input_names, reduced.inputs, strict=True)}
    run = describe_run(seed=0, tier=Tier.FULL, argv=["reduce", cell.id], project=Path.cwd())
    again = f"{os.path.relpath(cell.case.declaration.file)}::{cell.case.name}::{cell.id}"
    floor = floor_of(suspect.execute.chain)
    bundle = Bundle(
        title=title,
        model=model,
        feeds=feeds,
        expected=reduced.expected,
        runtime=cell.runtime,
        runner=runner_of(cell.runtime),
        floor=floor,
        again=(again,),
        environment=run,
    )
    write_bundle(bundle, folder)
    write_source(reduced, folder, title)


def write_source(reduced: Reduced, folder: Path, title: str) -> Path:
    """Write `program.py` and the tensors that it needs."""
    path = folder / "program.py"
    path.write_text(source_of(reduced, title), encoding="utf-8")
    weights = dict(reduced.piece.named_buffers(remove_duplicate=False))
    tensors = {"weights": weights, "inputs": reduced.inputs, "example": reduced.example}
    torch.save(tensors, folder / "tensors.pt")
    return path
