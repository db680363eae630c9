"""Measures how large and how small the values inside a model become, and what halves make of that.

An activation that is too large for float16 becomes infinite there. It need not reach an output: `x / x.sum()` is zero
then, and `tanh(x)` is one. So the values of the float32 model are looked at, and not the results of one in half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import Fed, as_tensor, to_fed
from onnx_parity.exporter.runtime.sessions import CPU_PROVIDER, RuntimeSession, session_options
from onnx_parity.harness.halves.flat_model import expanded, float_outputs, place_of

__all__ = ["HALVES", "Fit", "Range", "Values", "measure_ranges"]

HALVES: Mapping[str, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}
#: So many values are computed at once, so that not all activations of a model are in memory together.
_AT_ONCE = 256


class Fit(StrEnum):
    """What a half makes of a value."""

    HELD = "held"
    #: A finite number in it becomes infinite.
    OVERFLOWS = "overflows"
    #: All of it becomes zero, and some of it is not.
    VANISHES = "vanishes"


class Range(msgspec.Struct, frozen=True):
    """The magnitudes of one value over all samples. Zeros, infinities and NaN are left out of them."""

    name: str
    #: The operator that computes it, or `an input` or `a constant`; and the module and the source line of this operator
    #: or, of an input or a constant, of the first that reads it, as far as the model has them.
    operator: str
    module: str
    line: str
    largest: float
    smallest: float
    float16: Fit
    bfloat16: Fit
    #: The value is computed inside of the operator, as the standard defines it. `name` is then that of its result.
    inside: bool = False

    def fit(self, half: str) -> Fit:
        return self.float16 if half == "float16" else self.bfloat16

    def __str__(self) -> str:
        place = " in ".join(part for part in (self.line and f"at {self.line}", self.module) if part)
        inside = "inside " if self.inside else ""
        return f"{inside}{self.name}, of {self.operator}{f' {place}' if place else ''}"


class Values:
    """Computes values inside a model in onnxruntime, without its optimizations, so that each of them exists."""

    def __init__(self, model: ir.Model, names: Sequence[str]) -> None:
        graph = model.graph
        known = {output.name: output for node in graph for output in node.outputs}
        known |= {value.name: value for value in graph.inputs}
        outputs = list(graph.outputs)
        present = {value.name for value in outputs}
        graph.outputs.extend(known[name] for name in names if name not in present)
        try:
            self._session = RuntimeSession(model, _as_it_is).session
        finally:
            # Not a slice that is deleted: the values would go on to say that they are outputs.
            graph.outputs.clear()
            graph.outputs.extend(outputs)
        self.names = list(names)

    def of(self, feeds: Mapping[str, Fed]) -> Iterator[tuple[str, torch.Tensor]]:
        for start in range(0, len(self.names), _AT_ONCE):
            names = self.names[start : start + _AT_ONCE]
            yield from zip(names, map(as_tensor, self._session.run(names, dict(feeds))), strict=True)


def measure_ranges(model: ir.Model, samples: Sequence[Mapping[str, Fed]]) -> list[Range]:
    """The range of each float32 value of a flat model: first of those that it holds as constants, and then of those
    that it computes, in their order. Of what is computed inside of operators, only what is too large is listed."""
    measured, inside = expanded(model)
    makers = {output.name: node for node, output in float_outputs(model.graph)}
    given = [value.name or "" for value in model.graph.inputs if value.dtype is ir.DataType.FLOAT]
    first_reader = {value.name: node for node in reversed(model.graph) for value in node.inputs if value is not None}
    names = [*given, *(name for _, output in float_outputs(measured.graph) if (name := output.name or ""))]
    found: dict[str, _Extent] = {}
    for name, value in model.graph.initializers.items():
        if value.dtype is ir.DataType.FLOAT and value.const_value is not None and value.uses():
            found.setdefault(name, _Extent()).add(torch.from_numpy(value.const_value.numpy().copy()))
    values = Values(measured, names)
    for feeds in samples:
        for name, tensor in values.of(feeds):
            found.setdefault(name, _Extent()).add(tensor)
    result = []
    for name, extent in found.items():
        returned = inside.get(name, name)
        if returned != name and extent.in_half(HALVES["float16"]) is not Fit.OVERFLOWS:
            continue
        node = makers.get(returned) or first_reader.get(returned)
        module, line = ("", "") if node is None else place_of(node)
        operator = makers[returned].op_type if returned in makers else "an input" if name in given else "a constant"
        fits = (extent.in_half(HALVES["float16"]), extent.in_half(HALVES["bfloat16"]))
        result.append(
            Range(returned, operator, module, line, extent.largest, extent.smallest, *fits, inside=returned != name)
        )
    return result


class _Extent:
    """The largest and the smallest magnitude so far, without zeros and what is not finite."""

    def __init__(self) -> None:
        self.largest, self._smallest = 0.0, math.inf

    @property
    def smallest(self) -> float:
        return self._smallest if math.isfinite(self._smallest) else 0.0

    def add(self, tensor: torch.Tensor) -> None:
        magnitudes = tensor.abs()
        magnitudes = magnitudes[torch.isfinite(magnitudes) & (magnitudes > 0)]
        if magnitudes.numel():
            low, high = torch.aminmax(magnitudes)
            self.largest, self._smallest = max(self.largest, high.item()), min(self._smallest, low.item())

    def in_half(self, half: torch.dtype) -> Fit:
        rounded = torch.tensor(self.largest, dtype=torch.float32).to(half)
        if rounded.isinf():
            return Fit.OVERFLOWS
        return Fit.VANISHES if self.largest and not rounded else Fit.HELD


def as_feeds(sample: Mapping[str, object]) -> dict[str, Fed]:
    """Arrays and tensors by the names of inputs, as onnxruntime takes them."""
    return {
        name: to_fed(value if isinstance(value, torch.Tensor) else torch.as_tensor(value))
        for name, value in sample.items()
    }


def _as_it_is(model: str | bytes) -> object:
    import onnxruntime

    return onnxruntime.InferenceSession(
        model, session_options(level="disable_all", silent=True), providers=[CPU_PROVIDER]
    )
