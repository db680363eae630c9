"""Models of one node, and exports, as the programs of defects need them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

__all__ = ["exported", "i64", "reference", "session"]

Array = np.ndarray


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _model(operator: str, inputs: Sequence[Array | None], opset: int, outputs: int, attributes: Mapping[str, Any]) -> (
    onnx.ModelProto
):  # fmt: skip
    names = ["" if value is None else f"x{number}" for number, value in enumerate(inputs)]
    results = [f"y{number}" for number in range(outputs)]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    opsets = [helper.make_opsetid("", opset)]
    graph = helper.make_graph(
        [helper.make_node(operator, names, results, **attributes)],
        "defect",
        given,
        # The types of results are inferred.
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))


def _feeds(inputs: Sequence[Array | None]) -> dict[str, Array]:
    return {f"x{number}": value for number, value in enumerate(inputs) if value is not None}


def reference(operator: str, *inputs: Array | None, opset: int, outputs: int = 1, **attributes: object) -> list[Any]:
    """What onnx.reference makes of an operator."""
    from onnx.reference import ReferenceEvaluator

    model = _model(operator, inputs, opset, outputs, attributes)
    return list(ReferenceEvaluator(model).run(None, _feeds(inputs)))


def session(operator: str, *inputs: Array | None, opset: int, outputs: int = 1, **attributes: object) -> list[Any]:
    """What onnxruntime makes of an operator."""
    import onnxruntime

    model = _model(operator, inputs, opset, outputs, attributes)
    run = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(run.run(None, _feeds(inputs)))


def exported(function: Callable[..., Any], *arguments: Any, opset: int = 18, **options: Any) -> tuple[list[Any], Any]:
    """What the model that `torch.onnx.export(dynamo=True)` writes computes in onnxruntime, and what eager does."""
    import onnxruntime
    import torch

    program = function if isinstance(function, torch.nn.Module) else _Program(function)
    program.eval()
    expected = program(*arguments)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(program, arguments, path, opset_version=opset, dynamo=True, external_data=False, **options)
        onnx.checker.check_model(str(path), full_check=True)
        run = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        feeds = {each.name: value.numpy() for each, value in zip(run.get_inputs(), arguments, strict=True)}
        got = list(run.run(None, feeds))
    results = expected if isinstance(expected, tuple) else (expected,)
    return got, [each.detach().numpy() for each in results]


def _Program(function: Callable[..., Any]) -> Any:
    import torch

    class Program(torch.nn.Module):
        def forward(self, *arguments: Any) -> Any:
            return function(*arguments)

    return Program()
