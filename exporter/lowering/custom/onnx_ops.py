"""Operators of ONNX that a program calls by name: `onnx_parity.ops.symbolic` and `torch.onnx.ops.symbolic`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.schema.signatures import signature
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("onnx_parity::onnx_operator")
def onnx_operator(
    g: Graph,
    inputs: list[Value | None],
    name: str,
    attributes: str,
    dtypes: list[str],
    sizes: Sequence[Any],
    ranks: list[int],
    version: int | None = None,
) -> tuple[Value, ...]:
    document = json.loads(attributes)
    domain, _, op_type = name.rpartition("::")
    return _emitted(g, domain, op_type, inputs, document["attributes"], version, document["metadata"])


@lowering("onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out")
def torch_onnx_operator(
    g: Graph,
    inputs: list[Value | None],
    op_type: str,
    onnx_dtype: int = 0,
    *,
    attr_keys: Sequence[str] = (),
    attr_types: Sequence[str] = (),
    attr_pos: Sequence[Sequence[int]] = (),
    attr_ints: Sequence[int] = (),
    attr_floats: Sequence[float] = (),
    attr_strs: Sequence[str] = (),
    metadata_props_keys: Sequence[str] = (),
    metadata_props_values: Sequence[str] = (),
    domain: str = "",
    version: int | None = None,
    **_: Any,
) -> tuple[Value, ...]:
    """`torch.onnx.ops.symbolic`, which lists attributes by name, type, and the range of their values of that type."""
    stores: dict[str, Sequence[Any]] = {"i": attr_ints, "f": attr_floats, "s": attr_strs}
    attributes = {}
    for key, kind, (start, end) in zip(attr_keys, attr_types, attr_pos, strict=True):
        items = list(stores[kind[0]][start:end])
        attributes[key] = items if len(kind) > 1 else items[0]
    metadata = dict(zip(metadata_props_keys, metadata_props_values, strict=True))
    return _emitted(g, domain, op_type, inputs, attributes, version, metadata)


def _emitted(
    g: Graph,
    domain: str,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: dict[str, Any],
    version: int | None,
    metadata: dict[str, str],
) -> tuple[Value, ...]:
    if not domain:
        g.require_opset(version or 1, f"the program asks for {op_type} of opset {version}")
    suffixed = {f"{name}_{_suffix(value)}": value for name, value in attributes.items()}
    outputs = [output.dtype for output in g.node.outputs if output is not None]
    g.is_checked = True
    try:
        if not domain:
            signature(op_type, g.opset)
        results = g.typed_op(domain, op_type, inputs, suffixed, outputs, version)
    except TypeError as error:
        g.unsupported(str(error))
    g.nodes[-1].metadata_props.update(metadata)
    return tuple(results)


def _suffix(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, str) for item in items):
        return "s"
    return "f" if any(isinstance(item, float) for item in items) else "i"
