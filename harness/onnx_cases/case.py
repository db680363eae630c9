"""One case of an ONNX operator: its model, its inputs, and the expected outputs with their tolerances."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import onnx
import torch
from onnx import helper

from onnx_parity.exporter.arrays import Array, epsilon, is_float, ulp
from onnx_parity.exporter.verification.oracle import Expected, expect
from onnx_parity.harness.onnx_cases.attributes import Subgraph, TensorOf, TypeOf
from onnx_parity.harness.onnx_cases.given import Drawn, Given, Shape, Value, describe, draw_shares, map_arrays, value_of
from onnx_parity.harness.onnx_cases.types import Schema, Types, dtype_of, make_type, schema_at, short

if TYPE_CHECKING:
    from onnx_parity.harness.onnx_node import OnnxNode

__all__ = ["Call", "Definition", "Distribution", "Expectation", "OnnxCase"]

#: The most characters of an id, which names a folder.
_LONGEST = 150


@dataclass(frozen=True, slots=True)
class Definition:
    """A reference that is a written definition: a function of arrays, whose floats are float64."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Distribution:
    """What an output that is drawn at random must be like."""

    shape: Shape
    low: float
    high: float
    mean: float
    deviation: float

    def judge(self, drawn: Array) -> str:
        """What is unlike the distribution, or nothing."""
        low, high, mean, off_mean, deviation, off_deviation = self.numbers()
        wide = drawn.astype(np.float64)
        if drawn.shape != self.shape:
            return f"the shape is {drawn.shape}, not {self.shape}"
        if drawn.size and not (low <= wide.min() and wide.max() <= high):
            return f"elements from {wide.min()} to {wide.max()} are outside of {low} to {high}"
        if drawn.size and (abs(wide.mean() - mean) > off_mean or abs(wide.std() - deviation) > off_deviation):
            return f"the mean {wide.mean()} and deviation {wide.std()} are not near {mean} and {deviation}"
        return ""

    def numbers(self) -> list[float]:
        """The bounds; the mean, and how far from it that of the output may be; and the same of the deviation.

        Six standard errors: an output that is right fails once in five hundred million times.
        """
        size = max(int(np.prod(self.shape)), 1)
        error = 6 * self.deviation / np.sqrt(size)
        return [self.low, self.high, self.mean, float(error), self.deviation, float(error)]


#: Of an output: a list for a sequence, a dictionary for a map, None for an optional without a value.
Expectation: TypeAlias = "Expected | list[Expectation] | dict[Any, Expected] | Distribution | None"


@dataclass(frozen=True, slots=True)
class Call:
    """Inputs by their position, and inputs and attributes by their names.

    A version of the operator has the call if its schema knows every name, and has no input too few. So `axes` is an
    attribute of ReduceSum of version 11, and an input of that of version 13.
    """

    given: tuple[Given, ...]
    named: Mapping[str, Any]
    #: The numbers of the outputs that are asked for; None for all that the reference returns.
    outputs: tuple[int, ...] | None = None
    since: int = 1
    before: int = 1000
    #: Values of the model that only subgraphs read, by the names that these have for them; of the main type.
    outer: Mapping[str, Given] = field(default_factory=dict)

    @property
    def has_limits(self) -> bool:
        return any(isinstance(each, Drawn) and each.limits for each in (*self.given, *self.named.values()))

    def names_at(self, schema: Schema) -> tuple[list[str], dict[str, Any]] | None:
        """The names of the inputs that the call gives, and the attributes; None if this version has no such call."""
        variadic = bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        known = [each.name for each in schema.inputs]
        fixed = known[: len(known) - variadic]
        attributes = {name: value for name, value in self.named.items() if name in schema.attributes}
        inputs = {name for name in self.named if name in fixed and name not in attributes}
        if len(attributes) + len(inputs) < len(self.named) or (len(self.given) > len(known) and not variadic):
            return None
        if not self.since <= schema.since_version < self.before:
            return None
        names = [*known[: len(self.given)], *known[-1:] * (len(self.given) - len(known))]
        names = [name if given is not None else "" for name, given in zip(names, self.given, strict=True)]
        if inputs:
            names += [name if name in inputs else "" for name in fixed[len(names) :]]
            while not names[-1]:
                names.pop()
        single = onnx.defs.OpSchema.FormalParameterOption.Single
        lacks = any(each.option == single and each.name not in names for each in schema.inputs)
        if lacks or not inputs.issubset(names):
            return None
        if any(each.required and name not in attributes for name, each in schema.attributes.items()):
            return None
        return names, attributes


@dataclass(frozen=True, slots=True)
class OnnxCase:
    """One operator at one version, for one type of each type variable, with inputs and attributes."""

    declared: OnnxNode
    version: int
    #: The first opset since 7 that has this version.
    opset: int
    #: The type variable that the others follow.
    main: str
    types: Types
    call: Call
    #: Whether it is one of those that stand for all: of the operator's newest version, the first call with each type,
    #: and each call with the usual type.
    in_core: bool = True

    @property
    def id(self) -> str:
        """What names the case for ever: `Elu-6-float-2x3-alpha=0.5`."""
        others = [f"{name}={short(type_)}" for name, type_ in self.types.items()
                  if type_ != self.types[self.main] and len(self._allowed(name)) > 1]  # fmt: skip
        shapes = "_".join(describe(given) + "," * _is_single(given) for given in self.call.given)
        named = [f"{name}={_describe(value)}" for name, value in self.call.named.items()]
        named += [f"{name}={describe(given)}" for name, given in self.call.outer.items()]
        asked = ["outputs=" + ",".join(map(str, self.call.outputs))] if self.call.outputs is not None else []
        prefix = [f"ml.{self.declared.operator}" if self.declared.domain else self.declared.operator]
        whole = "-".join([*prefix, str(self.version), "+".join([self.type, *others]), *filter(None, [shapes]), *named,
                          *asked])  # fmt: skip
        digest = hashlib.sha256(whole.encode()).hexdigest()[:6]
        return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 7]}.{digest}"

    @property
    def type(self) -> str:
        """The type that the others follow, in a short form: `float`, `seq.int8`."""
        return short(self.types[self.main]) if self.types else "any"

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that are set, without subgraphs."""
        return {name: value for name, value in self._attributes().items() if not isinstance(value, onnx.GraphProto)}

    @property
    def names(self) -> list[str]:
        """The schema's names of the inputs, empty for those that are left out."""
        found = self.call.names_at(self.schema)
        assert found is not None
        return found[0]

    @property
    def outputs(self) -> Sequence[int]:
        """The numbers of the outputs that are asked for; the first, where the call does not say so."""
        return (0,) if self.call.outputs is None else self.call.outputs

    @property
    def schema(self) -> Schema:
        return schema_at(self.declared.operator, self.opset, self.declared.domain)

    @property
    def reference(self) -> str:
        """The name of the function that the expected values come from."""
        given = self.declared.reference
        function = given.function if isinstance(given, Definition) else given
        return f"{function.__module__}.{getattr(function, '__qualname__', function.__name__)}"

    def make_model(self) -> onnx.ModelProto:
        return self.make_test()[0]

    def draw_inputs(self) -> list[Value]:
        """The values of the inputs that are there."""
        return [value_of(given, type_, f"{self.id}#{number}", self.declared.drawn)
                for number, (given, type_) in enumerate(self._inputs())]  # fmt: skip

    def expect_outputs(self) -> list[Expectation]:
        return self.make_test()[2]

    def make_test(self) -> tuple[onnx.ModelProto, list[Value], list[Expectation]]:
        """The model, the values of its inputs, and what is expected of its outputs."""
        inputs = self.draw_inputs()
        expected = self._expect(inputs)
        return self._make_model(inputs, expected), inputs, expected

    def _make_model(self, values: Sequence[Value], expected: Sequence[Expectation]) -> onnx.ModelProto:
        places = iter(range(len(values)))
        names = [f"x{next(places)}" if name else "" for name in self.names]
        of_graph = [*filter(None, names), *self.call.outer]
        inputs = [helper.make_value_info(name, make_type(type_, _shape_of(value)))
                  for name, (_, type_), value in zip(of_graph, self._inputs(), values, strict=True)]  # fmt: skip
        asked = self._asked(len(expected))
        named = ["y"] if len(expected) == 1 else [f"y{number}" for number in asked]
        outputs = [
            helper.make_value_info(name, make_type(self._output_type(number), _shape_of(each)))
            for name, number, each in zip(named, asked, expected, strict=True)
        ]
        wanted, least = dict(zip(asked, named, strict=True)), self.schema.min_output
        made = helper.make_node(
            self.declared.operator,
            names,
            [
                wanted.get(number, f"unread{number}" if number < least else "")
                for number in range(max(*asked, least - 1) + 1)
            ],
            domain=self.declared.domain,
            **self._attributes(),
        )
        opsets = [helper.make_opsetid(self.declared.domain, self.opset)]
        if self.declared.domain:
            # Runtimes expect every model to have an opset of the main domain, which is older than 5 of ai.onnx.ml.
            opsets.append(helper.make_opsetid("", 18))
        return helper.make_model(
            helper.make_graph([made], "case", inputs, outputs),
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name="onnx-parity",
        )

    def _inputs(self) -> Iterator[tuple[Given, str]]:
        """Each input of the model, and its type."""
        formal = {each.name: each.type_str for each in self.schema.inputs}
        for number, name in enumerate(self.names):
            if name:
                given = self.call.given[number] if number < len(self.call.given) else self.call.named[name]
                yield given, self.types.get(formal[name], formal[name])
        for given in self.call.outer.values():
            yield given, self.types[self.main]

    def _output_type(self, number: int) -> str:
        formal = self.schema.outputs[min(number, len(self.schema.outputs) - 1)].type_str
        return self.types.get(formal, formal)

    def _asked(self, number: int) -> Sequence[int]:
        return range(number) if self.call.outputs is None else self.call.outputs

    def _allowed(self, variable: str) -> Sequence[str]:
        return next(each.allowed_type_strs for each in self.schema.type_constraints if each.type_param_str == variable)

    def _attributes(self) -> dict[str, Any]:
        found = self.call.names_at(self.schema)
        assert found is not None
        return {name: value.make(self.types) if isinstance(value, Subgraph | TensorOf | TypeOf) else value
                for name, value in found[1].items()}  # fmt: skip

    def _expect(self, inputs: Sequence[Value]) -> list[Expectation]:
        """The reference's results in float64, rounded once to the type, and the tolerance of each element."""
        exact = self._compute(inputs)
        steps = [epsilon(each.dtype) for value in inputs for each in (value if isinstance(value, list) else [value])
                 if isinstance(each, np.ndarray) and is_float(each.dtype)]  # fmt: skip
        step = max(steps, default=0.0)
        # Elements up or down by a unit in the last place: what cancels otherwise is seen to be sensitive.
        moved = [self._move(inputs, way, step) for way in "+-" if step]
        return [self._expect_output(number, result, [each[place] for each in moved if place < len(each)], step)
                for place, (number, result) in enumerate(zip(self._asked(len(exact)), exact, strict=True))]  # fmt: skip

    def _move(self, inputs: Sequence[Value], way: str, step: float) -> list[Any]:
        """The reference's results for inputs that are moved, by a step, up or down."""
        return self._compute([map_arrays(partial(_move, step, f"{self.id}#{number}{way}"), value)
                              for number, value in enumerate(inputs)])  # fmt: skip

    def _expect_output(self, number: int, exact: Any, moved: Sequence[Any], step: float) -> Expectation:
        if exact is None or isinstance(exact, Distribution):
            return exact
        dtype = dtype_of(self._output_type(number))
        if isinstance(exact, list):
            return [self._expect_output(number, item, [each[place] for each in moved if place < len(each)], step)
                    for place, item in enumerate(exact)]  # fmt: skip
        if isinstance(exact, dict):
            return {key: Expected(np.asarray(item, dtype)) for key, item in exact.items()}
        return self._expect_tensor(dtype, exact, moved, step)

    def _expect_tensor(self, dtype: np.dtype[Any], exact: Array, moved: Sequence[Array], step: float) -> Expected:
        with np.errstate(all="ignore"):
            value = exact.astype(dtype)
        if not is_float(dtype) or self.declared.exact:
            return Expected(value)
        wide = exact.astype(np.float64)
        within = self.declared.rounded_by if dtype == np.float64 else 0.0
        if within:
            return expect(value, wide, declared=within, signed_zeros=False)
        made = expect(value, wide, [each.astype(np.float64) for each in moved], moved_by=step, signed_zeros=False)
        if not self.declared.ulps_of_largest or made.tolerance is None or not wide.size:
            return made
        least = self.declared.ulps_of_largest * ulp(np.abs(wide).max(), dtype)
        return msgspec.structs.replace(made, tolerance=np.maximum(made.tolerance, least))

    def _compute(self, inputs: Sequence[Value]) -> list[Any]:
        """The outputs that are asked for, as arrays, lists of arrays, or None."""
        reference = self.declared.reference
        values = iter([map_arrays(_widen, value) for value in inputs])
        by_place = [(name, next(values) if name else None) for name in self.names]
        outer = dict(zip(self.call.outer, values, strict=True))
        if not isinstance(reference, Definition):
            by_place = [(name, map_arrays(_tensor, value)) for name, value in by_place]
        given = [value for _, value in by_place[: len(self.call.given)]]
        named = {name: value for name, value in by_place[len(self.call.given) :] if name}
        named |= self._read_attributes() | outer
        function = reference.function if isinstance(reference, Definition) else reference
        if isinstance(reference, Definition):
            more = {"types": self.types, "outputs": self.outputs}
            named |= {name: more[name] for name in more.keys() & _parameters(function)}
        with np.errstate(all="ignore"):
            made = function(*given, **named)
        results = list(made) if isinstance(made, tuple) else [made]
        asked = self._asked(len(results))
        return [_plain(results[number]) for number in asked if number < len(results)]

    def _read_attributes(self) -> dict[str, object]:
        """The attributes as the model has them: with the schema's defaults, and with numbers rounded to float32."""
        known = self.schema.attributes
        defaults = {name: helper.get_attribute_value(each.default_value) for name, each in known.items()
                    if each.default_value.name}  # fmt: skip
        read = {name: _decode(value) for name, value in defaults.items()}
        read |= self._attributes()
        return {name: _rounded(value) for name, value in read.items()}


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return {*inspect.signature(function).parameters}
    except ValueError:  # Before numpy 2.1, its own functions have no signature.
        return set()


def _is_single(given: Given) -> bool:
    """Whether it is a list of one element, which is no scalar."""
    return isinstance(given, list) and len(given) == 1 and not isinstance(given[0], list)


def _describe(value: Any) -> str:
    if isinstance(value, TypeOf):
        return value.variable
    if isinstance(value, TensorOf):
        return describe(list(value.elements))
    if isinstance(value, Subgraph):
        return hashlib.sha256(value.text.encode()).hexdigest()[:6]
    if isinstance(value, onnx.TensorProto | onnx.TypeProto | onnx.SparseTensorProto):
        return hashlib.sha256(value.SerializeToString(deterministic=True)).hexdigest()[:6]
    return describe(value)


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def _widen(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    # The narrow floats that numpy lacks have the kind V, as the narrow integers have.
    narrow = array.dtype.kind == "V" and "int" not in array.dtype.name
    return array.astype(np.float64) if narrow or is_float(array.dtype) else array


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(array if array.dtype.kind in "fcb" else array.astype(np.int64))


def _move(step: float, name: str, array: Array) -> Array:
    if not is_float(array.dtype):
        return array
    signs = np.where(np.array(draw_shares(name, array.size)) < 0.5, -1.0, 1.0)
    moved: Array = np.asarray(array.astype(np.float64) * (1.0 + step * signs.reshape(array.shape)))
    return moved


def _plain(result: Any) -> Any:
    if result is None or isinstance(result, Distribution | dict):
        return result
    if isinstance(result, list):
        return [_plain(item) for item in result]
    return result.numpy() if isinstance(result, torch.Tensor) else np.asarray(result)


def _shape_of(value: Value | Expectation) -> Sequence[int | None] | None:
    if isinstance(value, Distribution):
        return value.shape
    if isinstance(value, dict):
        return None
    if isinstance(value, list) or value is None:
        values = [each.value if isinstance(each, Expected) else each for each in value or ()]
        items = [each for each in values if isinstance(each, np.ndarray)]
        ranks = {each.ndim for each in items}
        if len(ranks) != 1:
            return None
        # A size that is not the same for all items is left open.
        along = [{each.shape[axis] for each in items} for axis in range(ranks.pop())]
        return [next(iter(sizes)) if len(sizes) == 1 else None for sizes in along]
    return value.value.shape if isinstance(value, Expected) else value.shape
