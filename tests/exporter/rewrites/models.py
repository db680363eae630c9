"""Models in ONNX's text format, and what a table of rewrites makes of them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, WeightTensor
from onnx_parity.exporter.rewrites.engine.rewriter import Rewrite, apply_rewrites, operators_of
from onnx_parity.exporter.rewrites.remove_unused import remove_unused

__all__ = ["assert_rewritten", "assert_stays", "parsed", "printed", "results"]

#: The size that a dynamic axis has when a model is run.
_SIZE = 2


def parsed(text: str, opset: int, weights: Collection[str] = ()) -> ir.Model:
    """A model from the text of its graph. The weights among its initializers are learned, and others are constants."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}, "mine": 1, "com.microsoft": 1]> graph {text}'
    )
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    for name, value in model.graph.initializers.items():
        assert value.const_value is not None
        tensor = torch.from_numpy(np.array(value.const_value.numpy()))
        value.const_value = WeightTensor(tensor, is_learned=True) if name in weights else TorchTensor(tensor, name)
        value.const_value.name = name
    return model


def printed(model: ir.Model) -> str:
    """The text of its graph, without names of nodes, sizes of values inside, and values that are computed later."""
    for value in model.graph.initializers.values():
        if isinstance(value.const_value, LazyTorchTensor):
            value.const_value = ir.tensor(value.const_value.numpy(), name=value.name)
    proto = ir.to_proto(model)
    del proto.graph.value_info[:]
    for node in proto.graph.node:
        node.ClearField("name")
    return onnx.printer.to_text(proto.graph)


def results(model: ir.Model) -> list[Any]:
    """What onnxruntime computes for some inputs, without optimisations of its own."""
    proto = ir.to_proto(model)
    generator = np.random.default_rng(0)
    feeds = {}
    for value in proto.graph.input:
        sizes = [dim.dim_value if dim.HasField("dim_value") else _SIZE for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.asarray(generator.uniform(-3, 3, sizes)).astype(dtype)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_rewritten(
    table: Sequence[Rewrite[Any]], before: str, after: str, *, opset: int = 18, weights: Collection[str] = ()
) -> None:
    """The table makes this model of that one, both are valid, and they compute the same."""
    model, plain = parsed(before, opset, weights), parsed(before, opset, weights)
    assert apply_rewrites(model, table, opset, operators_of(model))
    remove_unused(model)
    assert printed(model) == printed(parsed(after, opset))
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    for expected, actual in zip(results(plain), results(model), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def assert_stays(
    table: Sequence[Rewrite[Any]],
    text: str,
    because: str,
    *,
    opset: int = 18,
    weights: Collection[str] = (),
    keeps_weights: bool = False,
) -> None:
    """No rewrite of the table applies to the model, and one of them gives this reason."""
    model = parsed(text, opset, weights)
    reasons: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: reasons.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("onnx_parity.exporter.rewrites.engine.rewriter")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        assert not apply_rewrites(model, table, opset, operators_of(model), keeps_weights=keeps_weights)
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
    assert any(because in reason for reason in reasons), reasons
    assert printed(model) == printed(parsed(text, opset, weights))
