"""The order of rewrites, and that an export and `optimize()` do the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.captured_program import ModelOptions, as_model
from onnx_parity.exporter.errors import OnnxExporterError
from onnx_parity.exporter.rewrites import tables
from onnx_parity.exporter.rewrites.engine.rewriter import Rewrite
from onnx_parity.exporter.rewrites.order import ORDER, REQUIRED
from onnx_parity.exporter.rewrites.precise_sigmoids import PRECISE_SIGMOIDS
from onnx_parity.exporter.rewrites.scaled_products import SCALED_PRODUCTS
from onnx_parity.harness.axes import Capture, Device, Dtype, Selection, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.cases.program import InputSet, build
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.subjects.exporters import Parity
from onnx_parity.model_zoo.torchvision_import import torchvision
from tests.exporter.subjects import Classifier, images
from tests.thinned import one_in

ROOT = Path(__file__).parents[3]


def rewrites() -> Iterator[Rewrite[Any]]:
    for path in Path(next(iter(tables.__path__))).glob("[a-z]*.py"):
        module = import_module(f"{tables.__name__}.{path.stem}")
        for name in module.__all__:
            yield from getattr(module, name)
    yield from (*PRECISE_SIGMOIDS, *SCALED_PRODUCTS)


def test_every_rewrite_has_its_place_and_every_place_a_reason() -> None:
    placed = [rewrite for step in ORDER if not callable(step.does) for rewrite in step.does]
    assert {each.name for each in rewrites()} == {each.name for each in (*placed, *REQUIRED)}
    assert all(step.because for step in ORDER)


def assert_optimized_later(capture: onnx_parity.Capture, opset: int) -> None:
    """Exported without rewrites and optimized afterwards, the model is the same, byte for byte."""
    at_once = capture.lower(opset)
    later = as_model(capture, ModelOptions(opset_version=opset, optimize=False))
    later.optimize()
    assert later.serialize() == at_once.serialize()
    later.optimize()
    assert len(later.model.graph) <= len(at_once.model.graph)


@pytest.mark.parametrize("opset", one_in(3, [18, 7, 23]))
@pytest.mark.parametrize(
    "make",
    [Classifier, torchvision.models.resnet18, torchvision.models.squeezenet1_1, torchvision.models.mobilenet_v2],
    ids=lambda make: make.__name__,
)
def test_networks(make: Callable[[], nn.Module], opset: int) -> None:
    assert_optimized_later(onnx_parity.capture_program(make().eval(), (images(size=64),)), opset)


@pytest.mark.parametrize("opset", [7, 18, 23])
def test_a_transformer(opset: int) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    axes = {"src": {0: "batch", 1: "length"}}
    capture = onnx_parity.capture_program(model, (torch.ones(2, 3, 8),), input_names=["src"], dynamic_axes=axes)
    assert_optimized_later(capture, opset)


def declared() -> list[str]:
    """Those that count nodes, which rewrites make fewer, and one of a hundred others."""
    names = [name for name, _ in declared_under(ROOT / "op_cases")]
    return [name for place, name in enumerate(names) if name.startswith(("fewer", "fused")) or place % 100 == 0]


@pytest.mark.parametrize("name", one_in(3, declared()))
def test_declared_cases(name: str) -> None:
    selection = Selection(
        tier=Tier.SMOKE, opsets=(9, 23), devices=(Device.CPU,), captures=(Capture.TRACE,), dtypes=(Dtype.FLOAT32,)
    )
    by_program: defaultdict[tuple[str, object], list[Cell]] = defaultdict(list)
    for cell in cells_of(name, dict(declared_under(ROOT / "op_cases"))[name], selection):
        by_program[cell.case.label, cell.shapes].append(cell)
    for cells in by_program.values():
        with suppress(OnnxExporterError):  # Some are refused.
            capture = _recorded(cells[0])
            for cell in cells:
                assert_optimized_later(capture, cell.opset)


def _recorded(cell: Cell) -> onnx_parity.Capture:
    program = build(cell.case, cell.dtype, cell.device, 0)
    dynamic = cell.case.declaration.asked(cell.shapes)
    inputs = program.inputs(InputSet())
    return Parity().capture(Request(program.module, inputs, program.input_names, dynamic, cell.capture)).recorded


def test_weights_that_may_be_replaced_are_not_folded_later_either() -> None:
    program = onnx_parity.export(Classifier().eval(), (images(),), keep_initializers_as_inputs=True)
    before = program.serialize()
    program.optimize()
    assert program.serialize() == before


def test_early_opsets_list_what_is_folded_later_among_the_inputs() -> None:
    model = Classifier().eval()
    later = onnx_parity.export(model, (images(),), opset_version=8, optimize=False)
    later.optimize()
    at_once = onnx_parity.export(model, (images(),), opset_version=8)
    assert later.serialize() == at_once.serialize() and later.input_names == ("input",)
