"""Objects for the harness's tests: ONNX models, an exporter that delivers them, and a runtime with wrong outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.harness.axes import OPSETS, PARITY, Capture, Device, Dtype, Shapes
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.subjects.exporter_interface import Captured, Request
from onnx_parity.harness.subjects.runtime_interface import Session
from onnx_parity.harness.subjects.runtimes import OnnxRuntime


class RefusalError(Exception):
    """What the fake exporter raises to say that it cannot."""


def one_node(op: str, opset: int, shape: Sequence[int | str] = (2, 3), *, alpha: float = 1.0) -> bytes:
    """A model of one node from `x` to `y`, both of this shape."""
    node = helper.make_node(op, ["x"], ["y"], alpha=alpha)
    return model([node], opset, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    opset: int,
    shape: Sequence[int | str] = (2, 3),
    *,
    weights: Mapping[str, Array] | None = None,
    output: int = TensorProto.FLOAT,
) -> bytes:
    """A model from `x` to `y`, both of this shape."""
    graph = helper.make_graph(
        nodes,
        "fake",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", output, shape)],
        [onnx.numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(proto.SerializeToString())


@dataclass
class FakeExporter:
    """Delivers what `make` returns for an opset, or raises what it raises."""

    make: Callable[[int, Request], bytes]
    name: str = PARITY
    captures: int = 0

    def missing(self) -> str:
        return ""

    def refusal(self, error: Exception) -> str:
        return str(error) if isinstance(error, RefusalError) else ""

    def capture(self, request: Request) -> Captured:
        self.captures += 1
        return _FakeCaptured(self.make, request)


@dataclass
class _FakeCaptured:
    make: Callable[[int, Request], bytes]
    request: Request
    operators: tuple[str, ...] = ("aten::elu",)

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        return self.make(opset, self.request)


@dataclass
class LyingRuntime:
    """onnxruntime, whose outputs pass through `lie`."""

    lie: Callable[[Array], Array]
    name: str = "onnxruntime"
    opsets: tuple[int, ...] = OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ()
    honest: OnnxRuntime = field(default_factory=OnnxRuntime)

    def missing(self, device: Device) -> str:
        return self.honest.missing(device)

    def load(self, model: bytes | Path, device: Device) -> Session:
        return _LyingSession(self.honest.load(model, device), self.lie)


@dataclass
class _LyingSession:
    honest: Session
    lie: Callable[[Array], Array]

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [self.lie(np.asarray(output)) for output in self.honest.run(feeds)]


def cell(
    declaration: Declaration,
    *,
    opset: int = 18,
    dtype: Dtype = Dtype.FLOAT32,
    device: Device = Device.CPU,
    runtime: str = "onnxruntime",
    shapes: Shapes = Shapes.STATIC,
    transforms: tuple[str, ...] = (),
) -> Cell:
    """The first case of a declaration, at one point."""
    case = next(declaration.cases("case"))
    return Cell(case, dtype, opset, device, Capture.TRACE, PARITY, runtime, shapes, transforms)


def tensors(inputs: Sequence[object]) -> list[torch.Tensor]:
    """Inputs none of which is a list or left out."""
    found = [each for each in inputs if isinstance(each, torch.Tensor)]
    assert len(found) == len(inputs)
    return found


def arrays(feeds: Mapping[str, object]) -> dict[str, Array]:
    """What a model is run with, where all of it is arrays."""
    found = {name: each for name, each in feeds.items() if isinstance(each, np.ndarray)}
    assert len(found) == len(feeds)
    return found
