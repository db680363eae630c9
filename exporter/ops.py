"""ONNX operators that a program calls by name: each call becomes exactly one node of the model.

    def forward(self, x):
        return onnx_parity.ops.symbolic("my_domain::Foo", (x,), {"alpha": 0.5}, dtype=x.dtype, shape=x.shape)

Outside of an export, ONNX's own operators are computed by onnx.reference, and others raise an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import refuse_to_differentiate
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.transformer_ops import attention, rotary_embedding

__all__ = ["attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]


def symbolic(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype,
    shape: Sequence[int | torch.SymInt],
    version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> torch.Tensor:
    """Call an operator with one output: `Relu`, or `domain::Op`, of the opset `version`.

    Attributes are ints, floats, strings, bools and lists of them. The output has the given dtype and shape.
    """
    (result,) = symbolic_multi_out(
        domain_op, inputs, attrs, dtypes=(dtype,), shapes=(shape,), version=version, metadata_props=metadata_props
    )
    return result


def symbolic_multi_out(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    dtypes: Sequence[torch.dtype],
    shapes: Sequence[Sequence[int | torch.SymInt]],
    version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> list[torch.Tensor]:
    """Call an operator with several outputs, which have the given dtypes and shapes."""
    if len(dtypes) != len(shapes):
        raise ArgumentError(
            f"{domain_op} got {len(dtypes)} dtypes and {len(shapes)} shapes: give one of each for every output"
        )
    plain = {name: list(value) if isinstance(value, (tuple, list)) else value for name, value in (attrs or {}).items()}
    for name, value in plain.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, (int, float, str)) for item in items):
            raise ArgumentError(
                f"the attribute {name!r} of {domain_op} is {value!r}: give an int, a float, a string, a bool, or a "
                "list of them"
            )
    document = json.dumps({"attributes": plain, "metadata": dict(metadata_props or {})})
    sizes = [size for shape in shapes for size in shape]
    names = [_name(dtype) for dtype in dtypes]
    refuse_to_differentiate(domain_op, inputs)
    results: list[torch.Tensor] = _onnx_operator(
        list(inputs), domain_op, document, names, sizes, [len(shape) for shape in shapes], version
    )
    return results


def _name(dtype: torch.dtype) -> str:
    # For an argument ScalarType of a custom operator, torch 2.11 passes a number and later versions a dtype.
    return str(dtype).removeprefix("torch.")


def _shapes(
    inputs: list[torch.Tensor | None],
    name: str,
    attributes: str,
    dtypes: list[str],
    sizes: list[Any],
    ranks: list[int],
    version: int | None,
) -> list[torch.Tensor]:
    remaining = iter(sizes)
    device = next((tensor.device for tensor in inputs if tensor is not None), None)
    return [
        torch.empty([next(remaining) for _ in range(rank)], dtype=getattr(torch, dtype), device=device)
        for dtype, rank in zip(dtypes, ranks, strict=True)
    ]


def _compute(
    inputs: list[torch.Tensor | None],
    name: str,
    attributes: str,
    dtypes: list[str],
    sizes: list[int],
    ranks: list[int],
    version: int | None,
) -> list[torch.Tensor]:
    from onnx import defs, helper
    from onnx.reference import ReferenceEvaluator

    from onnx_parity.exporter.arrays import to_array, to_tensor

    domain, _, op_type = name.rpartition("::")
    if domain or not defs.has(op_type):
        raise NotImplementedError(
            f"{name} is not an operator of ONNX, so only the runtime of the model can compute it: call it where "
            "onnx_parity.is_in_onnx_export() is true, and an equivalent in torch elsewhere"
        )
    names = ["" if tensor is None else f"input_{number}" for number, tensor in enumerate(inputs)]
    results = [f"output_{number}" for number in range(len(dtypes))]
    node = helper.make_node(op_type, names, results, **json.loads(attributes)["attributes"])
    unknown = [helper.make_tensor_value_info(each, 0, None) for each in (*filter(None, names), *results)]
    count = len(unknown) - len(results)
    graph = helper.make_graph([node], "operator", unknown[:count], unknown[count:])
    opset = version or defs.onnx_opset_version()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {each: to_array(tensor) for each, tensor in zip(names, inputs, strict=True) if tensor is not None}
    computed = ReferenceEvaluator(model).run(None, feeds)
    return [to_tensor(each).to(getattr(torch, dtype)) for each, dtype in zip(computed, dtypes, strict=True)]


_onnx_operator = define(
    "onnx_operator(Tensor?[] inputs, str name, str attributes, str[] dtypes, SymInt[] sizes, int[] ranks, "
    "int? version) -> Tensor[]",
    _shapes,
)
run_by(_onnx_operator, _compute)
