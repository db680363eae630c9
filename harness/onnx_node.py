"""The vocabulary of the declaration files in `op_cases/onnx/`: `node`, which declares cases of one ONNX operator.

    elu = node("Elu", F.elu, alpha=[None, 0.5])
    add = node("Add", torch.add, shapes=BROADCAST)

There is a case for each version of the operator since opset 7, each type that its schema allows, each combination of
shapes, and each combination of the attributes that are lists; None stands for an attribute that is left out. The second
argument is the reference: a function of float64 tensors, and of all attributes by name. No runtime is asked.

Inputs are drawn by a generator that is a few lines of integer arithmetic (`_draw`). So they are the same with every
version of Python, numpy and torch, and do not depend on which other cases there are.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

from onnx_parity.exporter.arrays import Array, epsilon, is_float
from onnx_parity.exporter.verification.oracle import Expected, expect
from onnx_parity.harness.axes import OPSETS

__all__ = ["BROADCAST", "OnnxCase", "OnnxNode", "node"]

Shape: TypeAlias = tuple[int, ...]

#: One tensor: of some elements, of one, of rank 0, and without elements.
ALONE: tuple[tuple[Shape, ...], ...] = (((2, 3),), ((1,),), ((),), ((0, 3),))
#: Two tensors: of one shape, and with broadcasting of either or of both.
BROADCAST: tuple[tuple[Shape, ...], ...] = (
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1)), ((), (2, 3)), ((0, 3), (1, 3)),
)  # fmt: skip

_FLOATS = ("float16", "bfloat16", "float", "double")
_SIGNED, _UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True, slots=True)
class OnnxCase:
    """One operator at one version, for one type, with shapes and attributes."""

    declared: OnnxNode
    version: int
    #: The first opset since 7 that has this version.
    opset: int
    type: str
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, Any]

    @property
    def id(self) -> str:
        """What names the case for ever: `Elu-6-float-2x3-alpha=0.5`."""
        shapes = "_".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        attributes = (f"{name}={value}" for name, value in self.attributes.items())
        return "-".join([self.declared.operator, str(self.version), self.type, shapes, *attributes])

    def make_model(self) -> onnx.ModelProto:
        code = TensorProto.DataType.Value(self.type.upper())
        names = [f"x{number}" for number in range(len(self.shapes))]
        inputs = [
            helper.make_tensor_value_info(name, code, shape) for name, shape in zip(names, self.shapes, strict=True)
        ]
        output = helper.make_tensor_value_info("y", code, np.broadcast_shapes(*self.shapes))
        made = helper.make_node(self.declared.operator, names, ["y"], **self.attributes)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            helper.make_graph([made], "case", inputs, [output]),
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name="onnx-parity",
        )

    def draw_inputs(self) -> list[Array]:
        dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(self.type.upper()))
        return [self._draw_input(number, shape).astype(dtype) for number, shape in enumerate(self.shapes)]

    def _draw_input(self, number: int, shape: Shape) -> Array:
        low, high = self.declared.low, self.declared.high
        size = int(np.prod(shape, dtype=np.int64))
        if self.declared.values:
            values = list(itertools.islice(itertools.cycle(self.declared.values), size))
        else:
            values = [low + (high - low) * share for share in _draw(f"{self.id}#{number}", size)]
        if self.type not in _FLOATS:
            values = [float(int(abs(value) if self.type in _UNSIGNED else value)) for value in values]
        return np.array(values, np.float64).reshape(shape)

    def expect_output(self) -> Expected:
        """The reference's result in float64, rounded once to the type, and the tolerance of each element."""
        inputs = self.draw_inputs()
        exact = self._compute(inputs)
        value = exact.astype(inputs[0].dtype)
        if not is_float(value.dtype):
            return Expected(value)
        step = epsilon(value.dtype)
        wide = [each.astype(np.float64) for each in inputs]
        # Elements in turn up and down, by a unit in the last place: what cancels otherwise is seen to be sensitive.
        signs = [np.resize([1.0, -1.0], each.shape) for each in wide]
        moved = [self._compute([each * (1.0 + way * step * sign) for each, sign in zip(wide, signs, strict=True)])
                 for way in (1.0, -1.0)]  # fmt: skip
        return expect(value, exact, moved, moved_by=step, signed_zeros=False)

    def _compute(self, inputs: Sequence[Array]) -> Array:
        tensors = [torch.from_numpy(np.asarray(each, np.float64)) for each in inputs]
        computed: Array = self.declared.reference(*tensors, **self._read_attributes()).numpy()
        return computed

    def _read_attributes(self) -> dict[str, object]:
        """The attributes as the model has them: with the schema's defaults, and with numbers rounded to float32."""
        known = onnx.defs.get_schema(self.declared.operator, self.opset).attributes
        defaults = {name: helper.get_attribute_value(each.default_value) for name, each in known.items()
                    if each.default_value.name}  # fmt: skip
        read = {name: value.decode() if isinstance(value, bytes) else value for name, value in defaults.items()}
        read |= self.attributes
        return {name: float(np.float32(value)) if isinstance(value, float) else value for name, value in read.items()}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """What `node` returns: an operator, its reference, and what its cases are made of."""

    operator: str
    reference: Callable[..., torch.Tensor]
    shapes: tuple[tuple[Shape, ...], ...] = ALONE
    low: float = -4.0
    high: float = 4.0
    #: The elements of the inputs, again and again, instead of drawn ones.
    values: tuple[float, ...] = ()
    #: Whether types without a fraction, or without a sign, are taken too, where the schema allows them.
    integers: bool = True
    unsigned: bool = True
    sweeps: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def list_cases(self) -> Iterator[OnnxCase]:
        for version, opset in versions_of(self.operator).items():
            for type_ in self._types(opset):
                for shapes in self.shapes:
                    for attributes in self._attributes():
                        yield OnnxCase(self, version, opset, type_, shapes, attributes)

    def _types(self, opset: int) -> list[str]:
        schema = onnx.defs.get_schema(self.operator, opset)
        allowed = set(schema.inputs[0].types)
        wanted = (*_FLOATS, *(_SIGNED if self.integers else ()))
        wanted = (*wanted, *(_UNSIGNED if self.integers and self.unsigned else ()))
        return [each for each in wanted if f"tensor({each})" in allowed]

    def _attributes(self) -> Iterator[dict[str, object]]:
        for values in itertools.product(*self.sweeps.values()):
            yield {name: value for name, value in zip(self.sweeps, values, strict=True) if value is not None}


def node(operator: str, reference: Callable[..., torch.Tensor], **given: Any) -> OnnxNode:
    """Declares an operator. A keyword that is a list is an attribute and its values; the others are those above."""
    sweeps = {name: values for name, values in given.items() if isinstance(values, list)}
    settings = {name: value for name, value in given.items() if name not in sweeps}
    return OnnxNode(operator, reference, sweeps=sweeps, **settings)


def versions_of(operator: str) -> dict[int, int]:
    """The versions of an operator that opsets since 7 have, and the first of these opsets for each."""
    versions = sorted(_versions()[operator])
    found: dict[int, int] = {}
    for opset in OPSETS:
        if opset >= versions[0]:
            schema = onnx.defs.get_schema(operator, opset)
            if not schema.deprecated:
                found.setdefault(schema.since_version, opset)
    return found


@cache
def _versions() -> Mapping[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].add(schema.since_version)
    return found


def _draw(name: str, number: int) -> list[float]:
    """Numbers in [0, 1), of 24 bits each: SplitMix64, begun at the SHA-256 of a name."""
    mask = 2**64 - 1
    state = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    drawn = []
    for _ in range(number):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        drawn.append(((mixed ^ (mixed >> 31)) >> 40) / 2**24)
    return drawn
