"""Programs of statements in which dynamic sizes, layouts, writes, branches, dtypes and large numbers meet.

Wherever the assumptions of its model hold, the model has to compute what the program does, at every size from 0 to 9.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import onnx_parity
from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.recording.fakes.input_layouts import lies_like
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.runtime.sessions import (
    CPU_PROVIDER,
    ReferenceSession,
    RuntimeSession,
    errors_of_empty_axes,
    item_by_item,
    session_options,
)
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.verification.oracle import Expected, Verdict
from onnx_parity.exporter.verification.program_outputs import ProgramOutputs
from onnx_parity.exporter.verification.reference import Measurement
from onnx_parity.exporter.verification.trials import Trial
from onnx_parity.exporter.verification.verify import is_rounding
from onnx_parity.harness.any_size.images import STATEMENTS_OF_IMAGES
from onnx_parity.harness.one_line import one_line

__all__ = ["STATEMENTS", "Difference", "SizesProgram", "difference", "drawn", "look_at", "reduced"]

_LAYOUTS = (
    "v = v.t()", "v = v.t().contiguous()", "v = v.contiguous()", "v = v.movedim(0, 1)", "v = v.mT.contiguous().mT",
    "w = v.clone(); w[:, 0] = 1.5; v = w", "v[0] = 2.0", "v[:, :1] = v[:, -1:]", "w = v.t(); w[0] = 3.0",
    "w = v.t().contiguous(); w[0] = 3.0; v = v + w.t()", "w = v.view(-1); w[::2] = 0.5", "w = v[:, :2]; w += 1",
    "w = v.flatten(); w *= 2", "w = v.t().flatten(); w *= 2; v = v + 1", "w = v.t().ravel(); w *= 2; v = v + 1",
    "w = v.t().reshape_as(v.flatten()); w += 1; v = v * 2", "w = v[:, :1].contiguous(); w.zero_(); v = v + 1",
    "w = v.t().reshape(-1); w[:1] = 4.0; v = v + 0", "w = copied_by_a_script(v.t()); w.zero_(); v = v + 1",
    "v = v * 2 if v.t().is_contiguous() else v", "v = v + 1 if v[:, :1].is_contiguous() else v",
    "v = v * 3 if v.is_same_size(v.t()) else v", "v = v * 3 if v.is_same_size(v[:1]) else v",
    "v = branched_by_a_script(v)", "w = v.expand(1, -1, -1)[0]; v = w * 1",
    "w = v.as_strided((v.shape[0],), (v.shape[1],)); v = v + w.sum()",
)  # fmt: skip
_RESHAPES = (
    "w = v.reshape(v.shape[1], v.shape[0]); v = v * 2 + w.t()", "a, b = v.shape; v = v.view(b, a) * 1.0",
    "v = v.view(v.shape[0], 1, v.shape[1]).expand(-1, 2, -1).reshape(v.shape[0], -1)",
    "v = v.reshape(-1, 2) if v.numel() % 2 == 0 else v", "v = torch.stack([v, v * 2], 0).flatten(0, 1)",
    "v = v.unflatten(1, (-1, 1)).squeeze(-1)", "v = v.unsqueeze(0).squeeze(0)", "v = v.repeat(2, 1)",
    "v = v[None].flatten(1).view(1, *v.shape)[0]", "v = v[:, :, None].flatten(1)",
)  # fmt: skip
_PARTS = (
    "v = v[::2]", "v = v[:, v.shape[1] // 2 :]", "v = torch.cat([v, v[:1]])", "v = v[: max(v.shape[0] - 2, 1)]",
    "v = v.chunk(2)[0]", "v = v.narrow(0, 0, max(v.shape[0] - 1, 1))", "v = v[torch.arange(v.shape[0])]",
    "v = torch.cat([v, x], 1) if v.shape[0] == x.shape[0] else v", "v = v.topk(min(2, v.shape[1]), 1)[0]",
    "v = functional.pad(v, (0, v.shape[0] % 2))", "v = v.unfold(0, 2, 1).sum(-1) if v.shape[0] > 1 else v",
    "v = v.diagonal().unsqueeze(1) if v.shape[0] == v.shape[1] else v", "v = v * len(v.chunk(3))", "v = v[1:]",
    "v = v[-1:]", "v = v[:, 1:-1]", "v = v * (v[2 : v.shape[0] - 1].shape[0] + 1)", "v = v + v[:, 1:-1].shape[1]",
    "v = torch.cat([part.sum(0, True) for part in v.tensor_split(2)])",
    "v = functional.pad(v[None], (1, 1), mode='circular')[0]", "v = v[v.shape[0] // 2 :]", "v = v[v[:, :1].sum(1) > 0]",
)  # fmt: skip
_BRANCHES = (
    "v = v * (v.shape[0] % 2 == 0)", "v = v * int(v.shape[1] > 3)", "v = v if v.shape[0] > 2 else v * 2",
    "v = v.sum(0, keepdim=True) if v.shape[0] == 1 else v + 1", "v = v - 1 if v.shape[1] % 3 == 0 else v",
    "v = v.squeeze(0)[None] if v.shape[0] == 1 else v", "v = v @ v.t() if v.shape[0] > 1 else v",
    "v = v + torch.arange(v.shape[1])", "v = torch.eye(v.shape[0], v.shape[1], dtype=v.dtype) + v",
    "v = v / (v.shape[0] + 1)", "v = v * (2 if (v.shape[0] > 4) is True else 3)",
    "v = v if v.shape[0] != v.shape[1] else v + 2", "v = v * 2 if v.numel() > 12 else v",
    "v = v.squeeze(); v = v if v.dim() == 2 else v.reshape(-1, 1)",
    "v = v.t().contiguous().t().squeeze(0).sum(0).reshape(-1, 1)", "v = v.squeeze(1).sum(-1).reshape(1, -1) + v[:1]",
)  # fmt: skip
_VALUES = (
    "v = v.softmax(-1)", "v = v.cumsum(0)", "v = v - v.mean(0)", "v = v.sort(0)[0]", "v = v.flip(0).roll(1, 0)",
    "v = torch.where(v > 0, v, v * 0.5)", "v = v.masked_fill(v > 1, -3)", "v = v.double().to(x.dtype)",
    "v = functional.interpolate(v[None, None], scale_factor=1.5)[0, 0]", "v = v.long().to(x.dtype)", "v = v.tril()",
    "v = functional.interpolate(v.nan_to_num()[None], scale_factor=1.3, mode='linear')[0]", "v = v.amax(0, True) + v",
    "v = functional.interpolate(v[None, None], scale_factor=(1.3, 1.0), mode='nearest')[0, 0]",
    "v = (v @ torch.ones_like(v[0]))[:, None]", "v = (v[:, None] @ torch.ones_like(v.t()))[:, 0]",
    "v = functional.scaled_dot_product_attention(v[None], v[None], v[None])[0]", "v = v.log_softmax(0)",
    "v = functional.conv1d(v[:, None], v.new_ones(2, 1, 3), padding=1).flatten(1)", "v = v.cummax(0)[0]",
    "v = (v.clamp(-9, 9).int() ** torch.full_like(v, 12).long()).to(x.dtype)", "v = v.norm(dim=1, keepdim=True) + v",
)  # fmt: skip
_LARGE = (
    "v = v + (v > 0).to(v.dtype) * -1e9 if v.dtype != torch.float16 else v", "v = (v * 1e6).clamp(-100, 100)",
    "v = (v * 1).mul_(1e5).clamp(-1000, 1000)", "v = (torch.where(v > 0, v, 0) * 1e5).clamp(max=50)", "v = v / 1e6",
    "v = v * 1e-8", "v = v.tanh() * 60000", "v = functional.hardtanh(v * 70000)", "v = v / 100",
    "v = (v.abs() * 400).pow(2).mean(1, keepdim=True).sqrt()", "v = (v * 30000).norm(dim=0, keepdim=True) / 1000",
    "v = v - (v * 1000).var(0, keepdim=True).sqrt() / 1e3",
)  # fmt: skip
#: The statements, by what they are about.
STATEMENTS = {
    "layouts": _LAYOUTS, "reshapes": _RESHAPES, "parts": _PARTS, "branches": _BRANCHES, "values": _VALUES,
    "large numbers": _LARGE,
}  # fmt: skip
_HEADER = """\
import torch
from torch.nn import functional


@torch.jit.script
def copied_by_a_script(v):
    return v.contiguous()


@torch.jit.script
def branched_by_a_script(v):
    if v.t().is_contiguous():
        return v * 2
    return v


def program(x):
    v = x * 1
"""
_DTYPES = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64)
_SIZES = range(10)
#: The share of programs whose matrices are transposed ones.
_TRANSPOSED = 0.2
#: One of so many programs is one of images.
_IMAGES = 4
#: What programs raise for sizes that they do not take.
_REFUSALS = (RuntimeError, IndexError, ValueError, ZeroDivisionError)


@dataclass(frozen=True)
class SizesProgram:
    """A drawn program of one matrix, or of images with as many rows and columns."""

    seed: int
    lines: tuple[str, ...]
    dtype: torch.dtype
    example: tuple[int, int]
    #: Whether the rows of a matrix are its columns in memory, and images have their channels last.
    is_transposed: bool = False
    #: The number of images and of their channels; nothing for a matrix.
    before: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return _HEADER + "".join(f"    {line}\n" for line in (*self.lines, "return v + 0, x + 0"))

    def function(self, folder: Path) -> Callable[..., object]:
        """The program, in a file of its own: exports read the lines of a program."""
        file = folder / f"program{abs(hash(self.text))}.py"
        file.write_text(self.text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        program: Callable[..., object] = module.program
        return program

    def matrix(self, rows: int, columns: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed + 16 * rows + columns)
        matrix = torch.randn(*self.before, rows, columns, generator=generator).to(self.dtype)
        if self.is_transposed:
            return matrix.movedim(-3 if self.before else 0, -1).contiguous().movedim(-1, -3 if self.before else 0)
        return matrix


@dataclass(frozen=True)
class Difference:
    """Where a model is not right although its assumptions hold."""

    what: str
    #: How many sizes were compared before.
    compared: int


def drawn(seed: int) -> SizesProgram:
    """The program of a seed."""
    draw = random.Random(seed)
    if seed % _IMAGES == _IMAGES - 1:
        statements = [each for group in STATEMENTS_OF_IMAGES.values() for each in group]
        images = draw.choice([(2, 3), (1, 3), (2, 1), (2, 2)])
        lines = draw.choices(statements, k=draw.randint(3, 6))
        return SizesProgram(seed, tuple(lines), torch.float32, (4, 5), draw.random() < _TRANSPOSED, images)
    statements = [each for group in STATEMENTS.values() for each in group]
    lines = draw.choices(statements, k=draw.randint(1, 5))
    example = draw.choice([1, 2, 3, 4, 6]), draw.choice([1, 2, 3, 5, 5])
    return SizesProgram(seed, tuple(lines), draw.choice(_DTYPES), example, draw.random() < _TRANSPOSED)


def difference(program: SizesProgram, folder: Path) -> Difference | int:
    """The first difference; or at how many sizes the model is right, 0 if there is none."""
    function = program.function(folder)
    x = program.matrix(*program.example)
    opset = random.Random(program.seed).choice([14, 16, 18, 20, 21])
    try:
        function(x.clone())
    except _REFUSALS:
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = onnx_parity.export(
                function, (x.clone(),), dynamic_shapes=({x.ndim - 2: "n", x.ndim - 1: "m"},), opset_version=opset
            )
    except onnx_parity.OnnxExporterError:
        return 0  # It says so.
    model = _Model(exported)
    compared = 0
    for rows, columns in _sizes(program):
        x = program.matrix(rows, columns)
        if not all(_holds(each, x) for each in exported.assumptions):
            continue
        try:
            shapes = [tuple(each.shape) for each in tree_leaves(function(x.clone())) if isinstance(each, torch.Tensor)]
        except _REFUSALS:
            continue
        wrong = model.wrong_for(x, shapes)
        if wrong:
            holding = ", ".join(each.condition for each in exported.assumptions) or "nothing"
            return Difference(f"opset {opset}, {rows} x {columns}, assuming {holding}: {wrong}", compared)
        compared += 1
    return compared


def _holds(assumption: Assumption, x: torch.Tensor) -> bool:
    if assumption.of_layout is not None:
        return lies_like(assumption.of_layout.example, x, exactly=assumption.of_layout.exactly)
    return bool(assumption.holds_for({"n": x.shape[-2], "m": x.shape[-1]}))


class _Model:
    """An exported model, and its program in PyTorch."""

    def __init__(self, exported: onnx_parity.ONNXProgram) -> None:
        self._exported = exported
        self._in_torch = ProgramOutputs.of(exported)

    @cached_property
    def _of_nothing(self) -> ReferenceSession:
        return ReferenceSession(self._exported.model)

    @cached_property
    def _unoptimized(self) -> RuntimeSession:
        return RuntimeSession(self._exported.model, _session_without_optimizations)

    def wrong_for(self, x: torch.Tensor, shapes: Sequence[tuple[int, ...]]) -> str:
        """What is wrong for this input; empty if nothing is."""
        feeds = self._exported.feeds((x,), {})
        if not x.numel():
            return self._wrong_for_nothing(feeds, list(shapes))
        try:
            outputs = self._exported.runtime_session().run(feeds)
        except errors_of_empty_axes() as error:
            return f"the model fails: {one_line(str(error))}"
        measured = self._in_torch.measured(Trial("this input", (x,), {}))
        verdict, expected = self._judge(measured, outputs)
        if verdict.passed or self._is_right_elsewhere(measured, feeds):
            return ""
        arrays = [to_array(each) for each in item_by_item(outputs)]
        return "" if is_rounding(self._exported.model, feeds, expected, arrays, measured) else verdict.detail

    def _wrong_for_nothing(self, feeds: Mapping[str, Given], shapes: Sequence[tuple[int, ...]]) -> str:
        """What is wrong in onnx.reference, and in onnxruntime, which is asked if that is wrong: it refuses some of what
        the specification defines, and ends the process by some operators."""
        wrong = ""
        for session in (lambda: self._of_nothing, lambda: self._unoptimized):
            try:
                others = [tuple(each.shape) for each in tree_leaves(session().run(feeds))]
            except errors_of_empty_axes() as error:
                wrong = wrong or f"the model fails: {one_line(str(error))}"
                continue
            if others == list(shapes):
                return ""
            wrong = f"the shapes are {others}, and {list(shapes)} in PyTorch"
        return wrong

    def _judge(self, measured: Measurement[Any], outputs: Sequence[Any]) -> tuple[Verdict, Sequence[Expected]]:
        return self._in_torch.judge(measured, [to_array(each) for each in item_by_item(outputs)])

    def _is_right_elsewhere(self, measured: Measurement[Any], feeds: Mapping[str, Given]) -> bool:
        """Whether the model is right in onnxruntime without its optimizations, or in onnx.reference: then the runtime
        is wrong, or its rounding decides, as where a sum next to an integer is truncated."""
        for session in (self._unoptimized, self._of_nothing):
            with suppress(*errors_of_empty_axes()):
                if self._judge(measured, session.run(feeds))[0].passed:
                    return True
        return False


def _session_without_optimizations(model: str | bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, session_options(level="disable_all"), providers=[CPU_PROVIDER])


def _sizes(program: SizesProgram) -> Iterator[tuple[int, int]]:
    rows, columns = program.example
    found = [program.example]
    found += [(size, columns) for size in _SIZES] + [(rows, size) for size in _SIZES]
    found += [(size, size) for size in _SIZES] + [(1, 2), (2, 1), (3, 4), (0, 1), (1, 0)]
    yield from dict.fromkeys(found)


def reduced(program: SizesProgram, folder: Path) -> tuple[SizesProgram, Difference]:
    """A program with as few of the lines as still show a difference."""
    found = difference(program, folder)
    assert isinstance(found, Difference)
    for place in reversed(range(len(program.lines))):
        fewer = replace(program, lines=program.lines[:place] + program.lines[place + 1 :])
        other = difference(fewer, folder)
        if isinstance(other, Difference):
            program, found = fewer, other
    return program, found


def look_at(seed: int) -> list[str]:
    """At how many sizes the model of a drawn program is right; and if it differs, the reduced program, and how."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Of programs and runtimes, about inputs that are meant to be at the limits.
    program = drawn(seed)
    with tempfile.TemporaryDirectory(prefix="parity-") as aside:
        folder = Path(aside)
        found = difference(program, folder)
        if isinstance(found, int):
            return [str(found)]
        program, found = reduced(program, folder)
    how = ("a transposed" if program.is_transposed else "an") + (f" {program.before}" if program.before else "")
    where = f"{program.dtype}, {how} example of {program.example[0]} x {program.example[1]}"
    return [str(found.compared), f"program {seed} ({where}): {found.what}", *program.lines]
