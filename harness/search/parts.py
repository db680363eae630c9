"""Parts of generated programs that are no calls of torch's own functions: the programs of declared cases.

A part is a module, and an attribute of the program that calls it: `v0 = self.lstm(x0)`. Thus a search also draws what
the declarations write out, such as loops of TorchScript, layers with weights, and ways to write to a tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.recording.results import TensorList, TensorOrNone
from onnx_parity.harness.axes import ONNXRUNTIME, Capture, Device, Dtype, Selection, Shapes, Tier
from onnx_parity.harness.case import Case, Declaration
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.cases.program import InputSet, build
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.expecting.expectations import FILE, Expectation, load
from onnx_parity.harness.expecting.unsupported import FILE as REFUSED
from onnx_parity.harness.expecting.unsupported import load as load_refused
from onnx_parity.harness.inputs import Listed, Maker
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.opinfo import OpInfoDeclaration, SampleCase
from onnx_parity.harness.search.fixed import fix_values

__all__ = [
    "Flat", "ListOfAnyLengthError", "Part", "declared", "is_drawn", "is_part", "known_failures", "parts_of",
    "plain_tensors",
]  # fmt: skip

#: Inputs of more elements than this are left out: they take time and find nothing else.
_MOST_ELEMENTS = 5000
_SEED = 0
#: The dtypes of inputs and results. Others, such as 8 bits of floats, torch computes little with.
_DTYPES = frozenset(
    (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """The program of a declared case in one dtype."""

    case: Case
    dtype: Dtype
    #: What is expected of its cells to fail, at some points.
    failures: tuple[Expectation, ...] = ()

    def may_fail(self, opset: int) -> bool:
        """Whether it is expected to fail at this opset."""
        if not self.failures:
            return False
        static = f"{self.case.label}-{self.dtype}-opset{opset}-{Device.CPU}-{Capture.TRACE}-{ONNXRUNTIME}"
        return any(each.matches(cell) for each in self.failures for cell in (static, f"{static}-{Shapes.DYNAMIC}"))

    @property
    def name(self) -> str:
        """What the name of the attribute begins with: `lstm_num_layers_2`."""
        return re.sub(r"\W+", "_", self.case.label).strip("_")

    @property
    def source(self) -> str:
        """The expression that makes the module, given `declared`."""
        declaration = self.case.declaration
        return f"declared({str(declaration.file)!r}, {self.case.label!r}, {str(self.dtype)!r})"

    def is_exported(self, opset: int, *, dynamic: bool) -> bool:
        """Whether the tier that `unsupported.toml` is complete for has these cells, and the file does not list them."""
        label, declaration = self.case.label, self.case.declaration
        wanted = {Shapes.STATIC, Shapes.DYNAMIC} if dynamic and declaration.dynamic else {Shapes.STATIC}
        listed = load_refused(declaration.file.with_name(REFUSED))
        if listed is None or not listed.holds_here():
            return False
        cells = cells_of(_name_of(label), declaration, Selection(tier=listed.tier, devices=(Device.CPU,)))
        found = {
            cell.shapes
            for cell in cells
            if (cell.case.label, cell.dtype, cell.opset) == (label, self.dtype, opset)
            and not listed.holds(declaration.file.stem, label, self.dtype, cell.shapes, opset)
        }
        return found >= wanted

    def module(self) -> Flat:
        return Flat(build(self.case, self.dtype, Device.CPU, _SEED).module)

    def makers(self) -> dict[str, Maker]:
        """What makes its inputs, each with a dtype."""
        if isinstance(self.case, SampleCase):
            sample = self.case.sample(self.dtype, _SEED, InputSet())
            return dict(zip(sample.input_names, map(fix_values, sample.tensors), strict=True))
        made, dtype = build(self.case, self.dtype, Device.CPU, _SEED).makers, getattr(torch, self.dtype)
        return {name: replace(maker, dtype=maker.dtype or dtype) for name, maker in made.items()}


class ListOfAnyLengthError(TypeError):
    """How many tensors a part returns depends on values, as is only seen when it is exported."""


class Flat(torch.nn.Module):
    """A module that returns the plain tensors among what another one returns: the only one, or a tuple."""

    def __init__(self, program: torch.nn.Module) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        tensors = plain_tensors(tree_leaves(self.program(*inputs)))
        return tensors[0] if len(tensors) == 1 else tensors


def plain_tensors(leaves: Sequence[object]) -> tuple[torch.Tensor, ...]:
    """The plain tensors among what a part returns."""
    if any(isinstance(each, TensorOrNone | TensorList) for each in leaves):
        raise ListOfAnyLengthError("how many tensors it returns depends on values")
    return tuple(each for each in leaves if isinstance(each, torch.Tensor) and _is_plain(each))


def _name_of(label: str) -> str:
    """The name of a case's declaration: `clamp[min=1]`, or `operator_database.clamp[sample=1]` of an entry's sample."""
    return label.partition("[")[0].partition(".")[0]


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.dtype in _DTYPES and tensor.layout is torch.strided


def is_part(declaration: Declaration) -> bool:
    """Whether a search can draw the programs of a declaration: those that run outside of the full tier, and whose
    inputs are a fixed number of tensors."""
    return (
        type(declaration) in (Declaration, OpInfoDeclaration)
        and not declaration.train
        and declaration.tier is not Tier.FULL
        and all(isinstance(axes, Mapping) for axes in declaration.dynamic.values())
    )


def parts_of(name: str, declaration: Declaration, failures: Sequence[Expectation]) -> Iterator[Part]:
    """The cases of the default tier, in each dtype."""
    for case, dtypes in declaration.select(name, Selection()):
        own = tuple(each for each in failures if each.may_match(f"{case.label}-"))
        yield from (Part(case, dtype, own) for dtype in dtypes)


def known_failures(places: Sequence[Path]) -> tuple[Expectation, ...]:
    """What is expected of the cases of these files and folders."""
    folders = dict.fromkeys(place if place.is_dir() else place.parent for place in places)
    return tuple(each for folder in folders for each in load(folder / FILE))


def is_drawn(maker: Maker) -> bool:
    """Whether it makes one small plain tensor."""
    is_one = not isinstance(maker, Listed) and maker.dtype in _DTYPES
    return is_one and math.prod(maker.shape) <= _MOST_ELEMENTS


def declared(file: str, label: str, dtype: str) -> torch.nn.Module:
    """The module of a case, for scripts that are run where the project's declarations are."""
    for name, declaration in declared_under(Path(file), lambda name: name == _name_of(label)):
        for part in parts_of(name, declaration, ()):
            if (part.case.label, part.dtype) == (label, dtype):
                return part.module()
    raise DeclarationError(f"{file} declares no {label} in {dtype}")
