"""Finds the values of a model that halves cannot hold, and makes the mixed model that computes the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from onnx_parity.exporter.arrays import Array, Fed, to_array
from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
from onnx_parity.harness.halves.flat_model import float_outputs, loaded, place_of
from onnx_parity.harness.halves.mixed_model import casts_in, mixed, rounded
from onnx_parity.harness.halves.placing import halved_inputs, in_half
from onnx_parity.harness.halves.ranges import Fit, Range, Values, as_feeds, measure_ranges
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.transformations.named import FLOAT16_FLOOR
from onnx_parity.harness.transformations.signal import signal_to_noise

__all__ = ["CannotMeasureError", "Kept", "Ranges", "find_ranges"]

#: The least signal to noise, in dB. bfloat16 has 8 bits, about 48 dB.
_FLOORS = {"float16": FLOAT16_FLOOR, "bfloat16": 25.0}
#: At most so many nodes are kept in float32 only because the results need it.
_FURTHER = 20
#: The ratio that counts as exact where ratios are compared.
_EXACT = 200.0


class CannotMeasureError(Exception):
    """The model cannot be run on the samples, or has nothing to measure. The message has the reason."""


class Kept(msgspec.Struct, frozen=True):
    """A node that must stay in float32, and why."""

    value: str
    operator: str
    module: str
    line: str
    reason: str


class Ranges(msgspec.Struct):
    """What `find_ranges` found."""

    half: str
    samples: int
    values: list[Range]
    #: The first value that each half cannot hold; None if it can hold all.
    first: dict[str, Range | None]
    #: The nodes that must stay in float32, in their order.
    kept: list[Kept]
    nodes_in_half: int
    nodes_in_float32: int
    #: The casts that the mixed model has and the float32 model has not.
    casts: int
    #: The least ratio of signal to noise of the mixed model's outputs, in dB; None if it is infinite.
    signal_to_noise: float | None
    #: Why the mixed model is not to be used; empty if it is verified.
    wrong: str = ""

    @property
    def not_held(self) -> list[Range]:
        return [each for each in self.values if each.fit(self.half) is not Fit.HELD]


def find_ranges(
    model: str | Path | ir.Model, samples: Sequence[Mapping[str, object]], half: str = "float16"
) -> tuple[Ranges, ir.Model]:
    """Run a float32 model on samples of its inputs, and return what its values are and the mixed model.

    `samples` are arrays or tensors by the names of inputs. `half` is the dtype of the mixed model, `float16` or
    `bfloat16`. The mixed model has the same inputs and outputs in float32. It is verified on the samples, with each
    value that it has in half rounded as it is where kernels compute in half; `Ranges.wrong` has the reason if it is
    not right.
    """
    flat = loaded(model)
    feeds = [as_feeds(sample) for sample in samples]
    try:
        values = measure_ranges(flat, feeds)
    except errors_of_runtimes() as error:
        raise CannotMeasureError(f"the model cannot be run on the samples: {error_line(error)}") from error
    must = _must_stay(flat, values, half)
    kept = {each.value: each for each in must}
    trial = _Trial(flat, feeds, half)
    while True:
        chosen = {node.outputs[0].name or "" for node in in_half(flat, kept.keys(), half)}
        ratio, wrong = trial.judge(chosen)
        if not wrong or len(kept) - len(must) >= _FURTHER:
            break
        worst = trial.worst(chosen)
        if worst is None:
            break
        kept[worst.value] = worst
    result = mixed(flat, chosen, half)
    order = {output.name: number for number, node in enumerate(flat.graph) for output in node.outputs}
    computing = [node for node in flat.graph if any(map(_is_float, (*node.inputs, *node.outputs)))]
    return (
        Ranges(
            half,
            len(feeds),
            values,
            {name: next((each for each in values if each.fit(name) is not Fit.HELD), None) for name in _FLOORS},
            sorted(kept.values(), key=lambda each: order[each.value]),
            len(chosen),
            len(computing) - len(chosen),
            casts_in(result) - casts_in(flat),
            ratio if math.isfinite(ratio) else None,
            wrong or trial.run(result),
        ),
        result,
    )


def _must_stay(model: ir.Model, values: Sequence[Range], half: str) -> list[Kept]:
    """The nodes that read, make or compute inside what half cannot hold."""
    reasons: dict[str, str] = {}
    for each in values:
        fit = each.fit(half)
        if fit is not Fit.HELD and (each.inside or each.name not in reasons):
            size = f"{each.largest:.3g} {'is too large' if fit is Fit.OVERFLOWS else 'is too small'}"
            reasons[each.name] = f"{size}{', inside of it' if each.inside else ''}"
    inside = {each.name for each in values if each.inside}
    result = []
    for node in model.graph:
        names = [output.name or "" for output in node.outputs]
        made = next((f"returns {name}: {reasons[name]}" for name in names if name in reasons), "")
        read = next(
            (
                f"reads {value.name}: {reasons[value.name or '']}"
                for value in halved_inputs(node, model, half).values()
                if value.name in reasons and value.name not in inside
            ),
            "",
        )
        if made or read:
            module, line = place_of(node)
            result.append(Kept(names[0], node.op_type, module, line, made or read))
    return result


class _Trial:
    """Compares mixed models with the float32 model on the samples."""

    def __init__(self, model: ir.Model, feeds: Sequence[Mapping[str, Fed]], half: str) -> None:
        self._model, self._feeds, self._half = model, feeds, half
        self._outputs = [value.name or "" for value in model.graph.outputs]
        self._expected = self._run(model, self._outputs)

    def judge(self, in_half: set[str]) -> tuple[float, str]:
        """The least signal to noise with rounded values, and what is wrong; empty if nothing is."""
        got = self._run(rounded(self._model, in_half, self._half), self._outputs)
        return self._compared(got)

    def run(self, model: ir.Model) -> str:
        """What is wrong with the mixed model as a runtime computes it. Without kernels, only that it is valid ONNX."""
        try:
            return self._compared(self._run(model, self._outputs))[1]
        except errors_of_runtimes() as error:
            return "" if self._half == "bfloat16" else f"onnxruntime cannot run it: {error_line(error)}"

    def worst(self, in_half: set[str]) -> Kept | None:
        """The node in half that takes away most of the signal, compared with what it reads."""
        names = [output.name or "" for _, output in float_outputs(self._model.graph)]
        wanted, got = self._run(self._model, names), self._run(rounded(self._model, in_half, self._half), names)
        ratios: dict[str, float] = {}
        for (name, right), (_, given) in zip(wanted, got, strict=True):
            ratio = signal_to_noise(given, right) if _same_special(given, right) else -math.inf
            ratios[name] = min(ratios.get(name, math.inf), ratio, _EXACT)
        lost: dict[ir.Node, float] = {}
        for node, output in float_outputs(self._model.graph):
            if node.outputs[0].name in in_half and output.name is not None:
                before = min((ratios.get(v.name or "", _EXACT) for v in node.inputs if v is not None), default=_EXACT)
                if math.isfinite(before):
                    lost[node] = before - ratios[output.name]
        if not lost:
            return None
        node = max(lost, key=lost.__getitem__)
        return Kept(node.outputs[0].name or "", node.op_type, *place_of(node), "the outputs are wrong without it")

    def _run(self, model: ir.Model, names: Sequence[str]) -> list[tuple[str, Array]]:
        values = Values(model, names)
        return [(name, to_array(tensor)) for feeds in self._feeds for name, tensor in values.of(feeds)]

    def _compared(self, got: Sequence[tuple[str, Array]]) -> tuple[float, str]:
        least, floor = math.inf, _FLOORS[self._half]
        for (name, given), (_, right) in zip(got, self._expected, strict=True):
            if given.dtype != right.dtype or given.shape != right.shape:
                return -math.inf, f"output {name} is {given.dtype}{given.shape}, and not {right.dtype}{right.shape}"
            if not np.issubdtype(right.dtype, np.floating):
                if not np.array_equal(given, right):
                    return -math.inf, f"output {name} has other values than in float32"
                continue
            if not _same_special(given, right):
                return -math.inf, f"output {name} is infinite or NaN where it is not in float32"
            least = min(least, ratio := signal_to_noise(given, right))
            if ratio < floor:
                return ratio, f"output {name} has {ratio:.1f} dB of signal to noise, the floor is {floor:g} dB"
        return least, ""


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is ir.DataType.FLOAT


def _same_special(given: Array, right: Array) -> bool:
    return bool((np.isfinite(given) == np.isfinite(right)).all())
