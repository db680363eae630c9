"""The vocabulary of the declaration files in `op_cases/onnx/`: `node`, which declares cases of one ONNX operator.

    elu = node("Elu", F.elu, alpha=[None, 0.5])
    add = node("Add", torch.add, shapes=BROADCAST)
    concat = node("Concat", concatenate, call((2, 3), (2, 1), axis=1), call((0, 3), (2, 3), axis=0))

There is a case for each version of the operator since opset 7, each type that its schema allows, each call, each
combination of shapes, and each combination of the attributes that are lists; None stands for an attribute that is left
out. The second argument is the reference: a function of float64 tensors, and of all attributes by name, or a
`@definition`, which is the same in numpy. No runtime is asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_parity.exporter.arrays import Array
from onnx_parity.harness.onnx_cases.attributes import Subgraph, TensorOf, TypeOf
from onnx_parity.harness.onnx_cases.case import Call, Definition, Distribution, OnnxCase
from onnx_parity.harness.onnx_cases.given import NOTHING, Drawn, Given, Items, Shape
from onnx_parity.harness.onnx_cases.types import (
    ML,
    Schema,
    Types,
    alike,
    dtype_of,
    element_of,
    schema_at,
    variables_of,
    versions_of,
)

__all__ = [
    "ALONE", "BROADCAST", "LIMITS", "LIMITS_OF_TWO", "ML", "NOTHING", "Array", "Call", "Definition", "Distribution",
    "Drawn", "Items", "OnnxCase", "OnnxNode", "Subgraph", "TensorOf", "TypeOf", "Types", "call", "definition",
    "drawn", "dtype_of", "element_of", "node", "seq", "versions_of", "whole",
]  # fmt: skip

#: The numbers at which a type ends; and two tensors of which each of them meets each.
LIMITS = Drawn((13,), limits=True)
LIMITS_OF_TWO = (Drawn((13, 1), limits=True), LIMITS)
#: One tensor: of some elements, of one, of rank 0, without elements, and of limits.
ALONE: tuple[tuple[Given, ...], ...] = (((2, 3),), ((1,),), ((),), ((0, 3),), (LIMITS,))
#: Two tensors: of one shape, with broadcasting of either or of both, and of limits.
BROADCAST: tuple[tuple[Given, ...], ...] = (
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1)), ((), (2, 3)), ((0, 3), (1, 3)), LIMITS_OF_TWO,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """What `node` returns: an operator, its reference, and what its cases are made of."""

    operator: str
    reference: Callable[..., Any] | Definition
    calls: tuple[Call, ...]
    domain: str = ""
    #: The versions that are meant, where the operator's meaning changed.
    since: int = 1
    before: int = 1000
    #: What inputs are drawn from, if a call does not say.
    drawn: Drawn = field(default_factory=lambda: Drawn((), -4.0, 4.0))
    #: Whether types without a fraction, or without a sign, are taken too, where the schema allows them.
    integers: bool = True
    unsigned: bool = True
    #: Whether what comes of the limits of integers is an integer of the type. What others become is not said.
    stays_whole: bool = False
    #: The type variable whose types are all taken for every call; the first of the inputs that has several types.
    main: str | None = None
    #: The elements of type variables that do not follow the main one.
    usual: Mapping[str, str] = field(default_factory=dict)
    #: Which combinations of types are valid, if not all.
    where: Callable[[Types], bool] | None = None
    #: Whether floats must be equal, as where elements are only moved.
    exact: bool = False
    #: The precision of the constants or steps in float32 that the specification itself prescribes for doubles.
    rounded_by: float = 0.0
    #: By how many units of the largest element one may be off that is a sum of such elements, which cancel.
    ulps_of_largest: float = 0.0

    def list_cases(self) -> Iterator[OnnxCase]:
        opsets = {version: opset for version, opset in versions_of(self.operator, self.domain).items()
                  if self.since <= version < self.before}  # fmt: skip
        for version, opset in opsets.items():
            yield from self._list_version(version, opset, is_newest=version == max(opsets))

    def _list_version(self, version: int, opset: int, *, is_newest: bool) -> Iterator[OnnxCase]:
        """Every call with every type; for an older version, every call with the usual type, and one with the others."""
        schema = schema_at(self.operator, opset, self.domain)
        variables = variables_of(schema)
        swept: dict[str, set[str]] = {name: set() for name in variables}
        first = next((each for each in self.calls if each.names_at(schema)), None)
        for each in self.calls:
            found = each.names_at(schema)
            if found is None:
                continue
            used = _used(schema, *found) & variables.keys()
            main = self.main if self.main in variables else _main(variables, used)
            usual = self._usual(main, variables.get(main, ("",)))
            for types in self._assign(variables, main, used, swept):
                if each.has_limits and not self._has_limits(element_of(types[main])):
                    continue
                stands_for_others = each is first or types.get(main, "") == usual
                if is_newest or stands_for_others:
                    yield OnnxCase(self, version, opset, main, types, each, in_core=is_newest and stands_for_others)

    def _assign(
        self, variables: Mapping[str, tuple[str, ...]], main: str, used: set[str], swept: dict[str, set[str]]
    ) -> Iterator[Types]:
        """Every type of the main variable, which the others follow; then, in the first call that has them, the types
        of each other variable that have not been there, with the usual ones beside them."""
        if not variables:
            yield {}
            return
        wanted = [each for each in variables[main] if self._is_wanted(each)]
        for type_ in wanted:
            types = {name: self._follow(name, allowed, type_, name in used) for name, allowed in variables.items()}
            types[main] = type_
            if self.where is None or self.where(types):
                for name in used:
                    swept[name].add(types[name])
                yield types
        usual = self._usual(main, wanted)
        for name in (each for each in variables if each in used and each != main):
            for type_ in variables[name]:
                if type_ in swept[name]:
                    continue
                types = {each: self._follow(each, allowed, usual, each in used) for each, allowed in variables.items()}
                types |= {main: usual, name: type_}
                # What only outputs have is most likely the same.
                types |= {each: alike(usual, allowed) or alike(type_, allowed) or types[each]
                          for each, allowed in variables.items() if each not in used | self.usual.keys()}  # fmt: skip
                matching = (each for each in wanted if self.where is None or self.where({**types, main: each}))
                if self.where is not None and not self.where(types):
                    types[main] = next(matching, "")
                if types[main]:
                    swept[name].add(type_)
                    yield types

    def _has_limits(self, element: str) -> bool:
        return "float" in element or element == "double" or ("int" in element and self.stays_whole)

    def _is_wanted(self, type_: str) -> bool:
        element = element_of(type_)
        return (self.integers or "int" not in element) and (self.unsigned or not element.startswith("uint"))

    def _follow(self, name: str, allowed: tuple[str, ...], type_: str, used: bool) -> str:
        followed = None if name in self.usual else alike(type_, allowed)
        return followed or self._usual(name, allowed)

    def _usual(self, name: str, allowed: Sequence[str]) -> str:
        return next((each for each in allowed if element_of(each) == self.usual.get(name)), allowed[0])


def node(
    operator: str,
    reference: Callable[..., Any] | Definition,
    *calls: Call,
    shapes: Sequence[Sequence[Given]] = (),
    low: float = -4.0,
    high: float = 4.0,
    values: tuple[float, ...] = (),
    **given: Any,
) -> OnnxNode:
    """Declares an operator. A keyword that is a list is an attribute and its values; the others are settings of
    `OnnxNode`. Without calls and shapes, the inputs are those of `ALONE`."""
    sweeps = {name: values for name, values in given.items() if isinstance(values, list)}
    settings = {name: value for name, value in given.items() if name not in sweeps}
    shapes = shapes or (() if calls else ALONE)
    swept = [
        Call(tuple(each), {name: value for name, value in zip(sweeps, values, strict=True) if value is not None})
        for each in shapes
        for values in itertools.product(*sweeps.values())
    ]
    return OnnxNode(operator, reference, (*swept, *calls), drawn=Drawn((), low, high, values=values), **settings)


def call(
    *given: Given, outputs: Sequence[int] | None = None, since: int = 1, before: int = 1000,
    outer: Mapping[str, Given] | None = None, **named: Any,
) -> Call:  # fmt: skip
    """Inputs by position, and inputs or attributes by name. A tuple is a shape, whose elements are drawn; lists, maps
    and numbers are values; None leaves an input out. `outputs` are the numbers of those that are asked for, `outer`
    what subgraphs read of the model."""
    there = {name: value for name, value in named.items() if value is not None}
    return Call(given, there, None if outputs is None else tuple(outputs), since, before, outer or {})


def definition(function: Callable[..., Any]) -> Definition:
    """Marks a reference that is written here: it is given arrays, whose floats are float64, not tensors. A parameter
    `types` is given the types of the case, and `outputs` the numbers of the outputs that are asked for."""
    return Definition(function)


def drawn(shape: Shape, low: float | None = None, high: float | None = None, values: tuple[float, ...] = ()) -> Drawn:
    """A tensor whose elements are drawn between these numbers, or are these values again and again."""
    return Drawn(shape, low, high, values=values)


def whole(shape: Shape, low: int, below: int) -> Drawn:
    """A tensor of drawn whole numbers."""
    return Drawn(shape, low, below, whole=True)


def seq(*items: Given) -> Items:
    """A sequence of tensors."""
    return Items(items)


def _used(schema: Schema, names: Sequence[str], attributes: Mapping[str, Any]) -> set[str]:
    """The type variables of the inputs that are there, and those that attributes follow."""
    of_inputs = {each.type_str for each in schema.inputs if each.name in names}
    return of_inputs | {value.variable for value in attributes.values() if isinstance(value, TensorOf | TypeOf)}


def _main(variables: Mapping[str, tuple[str, ...]], used: set[str]) -> str:
    many = [name for name, types in variables.items() if len(types) > 1]
    return next((name for name in many if name in used), next(iter(many or variables), ""))
