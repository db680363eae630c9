"""A call of a torch operator encoded as attributes and inputs of an ONNX node, and decoded again.

Tensors and dynamic sizes are inputs. The attribute `inputs` lists the parameter of each input, repeated for the items
of a list. All other arguments are attributes with the name of the parameter. Arguments that equal their defaults, or
that do not affect values (device, layout), are left out. The encoding is lossless: a test checks that the decoded
arguments are those that were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from typing import Any

import torch

from onnx_parity.exporter.errors import ArgumentError, Unsupported
from onnx_parity.exporter.graph.graph import Node
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, overload_of, schema_of

__all__ = ["ATEN_DOMAIN", "ATEN_OP", "NOT_VALUES", "decoded", "encoded", "header", "operator_of"]

#: The domain and operator that `torch.onnx` uses too.
ATEN_DOMAIN = "org.pytorch.aten"
ATEN_OP = "ATen"
#: Arguments that do not affect values, but only their location and layout in memory.
NOT_VALUES = frozenset(
    {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "requires_grad"}
)
#: Attributes that are not parameters of the operator. The last lists the parameters that are None.
_OPERATOR, _OVERLOAD, _INPUTS, _NONES = "operator", "overload_name", "inputs", "nothing"


def operator_of(attributes: Mapping[str, Any]) -> OpOverload:
    """The operator that the attributes of a node name."""
    qualified = str(attributes[_OPERATOR])
    namespace, _, name = qualified.rpartition("::")
    packet = getattr(getattr(torch.ops, namespace or "aten"), name, None)
    if packet is None:
        raise ArgumentError(
            f"the model calls {namespace or 'aten'}::{name}, which is not defined: import the module that defines it"
        )
    operator: OpOverload = getattr(packet, str(attributes.get(_OVERLOAD) or "default"))
    return operator


def encoded(
    node: Node, lowered: Callable[[AtenValue], Any], sizes: Callable[[Sequence[Any]], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs, and the attributes with the suffixes of `g.op`. `sizes` creates a tensor of dynamic sizes."""
    op = node.op
    assert isinstance(op, OpOverload)
    inputs: list[Any] = []
    names: list[str] = []
    nones: list[str] = []
    attributes: dict[str, Any] = {}
    for parameter in schema_of(op).arguments:
        name = parameter.name
        if name in NOT_VALUES or name not in node.arguments:
            continue
        argument = node.arguments[name]
        items = argument if isinstance(argument, (list, tuple)) else [argument]
        if any(isinstance(item, AtenValue) for item in items):
            inputs.extend(None if item is None else lowered(item) for item in items)
            names.extend([name] * len(items))
        elif any(isinstance(item, torch.SymInt) for item in items):
            inputs.append(sizes(items))
            names.append(name)
        elif argument is None:
            if parameter.has_default_value() and parameter.default_value is None:
                continue
            nones.append(name)
        else:
            suffix, stored = _stored(name, argument, str(parameter.real_type))
            attributes[f"{name}_{suffix}"] = stored
    attributes[f"{_INPUTS}_s"] = names
    if nones:
        attributes[f"{_NONES}_s"] = nones
    return inputs, attributes


def header(op: OpOverload, *, with_operator: bool) -> dict[str, Any]:
    """The attributes that identify the operator."""
    namespace, _, name = schema_of(op).name.partition("::")
    attributes = {f"{_OPERATOR}_s": name if namespace == "aten" else schema_of(op).name} if with_operator else {}
    if overload_of(op) != "default":
        attributes[f"{_OVERLOAD}_s"] = overload_of(op)
    return attributes


def _stored(name: str, argument: Any, declared: str) -> tuple[str, Any]:
    items = argument if isinstance(argument, (list, tuple)) else [argument]
    if all(isinstance(item, torch.dtype) for item in items) and items:
        return "s", str(argument)
    if all(isinstance(item, str) for item in items) and items:
        return "s", argument
    if all(isinstance(item, bool) for item in items) and "bool" not in declared:
        # The schema declares a number here. An attribute would not distinguish True from 1.
        return ("i", []) if not items else ("t", torch.tensor(argument))
    if all(isinstance(item, int) for item in items):
        return "i", argument
    if all(isinstance(item, (int, float)) for item in items):
        # A float attribute is a float32 in ONNX.
        exact = all(c_float(item).value == item for item in items)
        return ("f", argument) if exact else ("t", torch.tensor(argument, dtype=torch.float64))
    if isinstance(argument, complex):
        return "t", torch.tensor(argument, dtype=torch.complex128)
    raise Unsupported(
        f"its argument {name} is {argument!r}, but an ONNX attribute cannot be a {type(argument).__name__}"
    )


def decoded(op: OpOverload, attributes: Mapping[str, Any], tensors: Sequence[torch.Tensor | None]) -> dict[str, Any]:
    """The arguments of the call that was passed to `encoded`."""
    given: dict[str, list[torch.Tensor | None]] = {}
    for name, tensor in zip(attributes.get(_INPUTS, ()), tensors, strict=True):
        given.setdefault(str(name), []).append(tensor)
    arguments: dict[str, Any] = {}
    for parameter in schema_of(op).arguments:
        name, declared = parameter.name, str(parameter.real_type)
        if name in given:
            arguments[name] = _from_tensors(given[name], declared)
        elif name in attributes:
            arguments[name] = _from_attribute(attributes[name], declared)
        elif name in attributes.get(_NONES, ()):
            arguments[name] = None
    return arguments


def _from_tensors(tensors: list[torch.Tensor | None], declared: str) -> Any:
    if "Tensor" in declared:
        return tensors if "List" in declared else tensors[0]
    (sizes,) = tensors
    assert sizes is not None
    numbers = sizes.reshape(-1).tolist()
    return numbers if "List" in declared else numbers[0]


def _from_attribute(stored: Any, declared: str) -> Any:
    if "ScalarType" in declared:
        return getattr(torch, str(stored).removeprefix("torch."))
    if isinstance(stored, torch.Tensor):
        return stored.tolist()
    if "bool" in declared:
        return [bool(item) for item in stored] if isinstance(stored, list) else bool(stored)
    if "List" in declared and "float" in declared:
        return [float(item) for item in stored]
    return stored
