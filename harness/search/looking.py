"""Which probes a program is put to, and at which points."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from onnx_parity.harness.axes import (
    ONNX_REFERENCE,
    ONNXRUNTIME,
    ONNXRUNTIME_OPSETS,
    PARITY,
    TORCH_DYNAMO,
    TORCH_SCRIPT,
    Capture,
    is_function,
)
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Point, Probe, RefusedHere, runtime
from onnx_parity.harness.search.probes_of_models import converted, shape_inference, text, transformed
from onnx_parity.harness.search.probes_of_torch import decompositions, fake_tensors
from onnx_parity.harness.transformations.named import TRANSFORMATIONS

#: Every probe, and the share of programs that are put to it. All run this exporter's model, or no model at all.
#: Transformations that compute in fewer bits are none: what they may change in one operator, others magnify.
PROBES: Mapping[str, tuple[Probe, float]] = {
    ONNXRUNTIME: (runtime, 1.0),
    f"{ONNXRUNTIME}:none": (runtime, 0.15),
    f"{ONNXRUNTIME}:basic": (runtime, 0.03),
    ONNX_REFERENCE: (runtime, 0.08),
    # torch takes half a second to make an exported program.
    Capture.SCRIPT: (runtime, 0.1),
    Capture.EXPORTED_PROGRAM: (runtime, 0.02),
    "shape_inference": (shape_inference, 0.15),
    "text": (text, 0.05),
    "convert": (converted, 0.08),
    "onnxscript:convert": (converted, 0.02),
    **{name: (transformed, 0.02) for name, each in TRANSFORMATIONS.items() if each.floor is None},
    "fake_tensors": (fake_tensors, 0.15),
    "decompositions": (decompositions, 0.1),
}
#: At how many opsets this exporter's model is run in onnxruntime. A program is captured once for all of them.
OPSETS = 4
#: The share of programs that other exporters export, with the opsets that they write. They take seconds each.
PEERS = {TORCH_SCRIPT: (0.03, range(9, 21)), TORCH_DYNAMO: (0.004, range(18, 24))}


class Ending(StrEnum):
    """What became of a program at a point."""

    RIGHT = "right"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Looked:
    point: Point
    ending: Ending
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What a search is restricted to. Probes named here are put to every program."""

    probes: tuple[str, ...] = ()
    exporters: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ONNXRUNTIME_OPSETS

    def points(self, seed: int) -> Iterator[Point]:
        """The points of a program of this seed."""
        drawn = random.Random(f"points {seed}")
        opset, *others = drawn.sample(self.opsets, min(OPSETS, len(self.opsets)))
        own = [pattern for pattern in self.probes if is_function(pattern)]
        for exporter in self.exporters or (PARITY,):
            for name, (_, share) in PROBES.items():
                asked = any(fnmatchcase(name, pattern) for pattern in self.probes)
                if asked or (not self.probes and drawn.random() < share):
                    yield Point(name, exporter, opset)
                    if name == ONNXRUNTIME and exporter == PARITY:
                        yield from (Point(name, exporter, each) for each in others)
            yield from (Point(name, exporter, opset) for name in own)
        if not self.exporters and not self.probes:
            for exporter, (share, opsets) in PEERS.items():
                among = [each for each in self.opsets if each in opsets]
                if among and drawn.random() < share:
                    yield Point(ONNXRUNTIME, exporter, drawn.choice(among))


def look(subject: ProbedProgram, point: Point) -> Looked:
    """Put a program to a probe."""
    probe = PROBES[point.probe][0] if point.probe in PROBES else transformed
    try:
        failure = probe(subject, point)
    except RefusedHere:
        return Looked(point, Ending.REFUSED)
    return Looked(point, Ending.FAILED if failure else Ending.RIGHT, failure)


def unknown(patterns: Sequence[str]) -> list[str]:
    """The patterns that no probe has a name of, and that name no function either."""
    return [each for each in patterns if not is_function(each) and not any(fnmatchcase(name, each) for name in PROBES)]
