"""What the cases of ONNX operators cover of ONNX's own schemas, and what is absent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import onnx

from onnx_parity.harness.onnx_cases.given import Drawn, Items
from onnx_parity.harness.onnx_cases.types import Schema, operators_of, schema_at, variables_of, versions_of
from onnx_parity.harness.onnx_node import ML, OnnxCase

__all__ = ["DomainCoverage", "Share", "measure"]

#: What is counted, from the coarse to the fine. Each thing of a version counts by itself.
KINDS = ("operators", "versions", "types", "attributes", "optional inputs", "optional inputs left out",
         "optional outputs", "optional outputs left out", *(EDGES := ("size 0", "size 1", "broadcasting")))  # fmt: skip
#: What the documentation of an operator says if inputs of several shapes are broadcast.
_BROADCASTS = re.compile(r"(?:[Nn]um[Pp]y-style\)?|directional) broadcasting")
_SCALARS = dict.fromkeys(
    ("Range", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"), "its inputs are scalars"
)
_FILES = {"ImageDecoder": "it decodes a file"}
#: What no case can have, and why.
EXEMPT: Mapping[str, Mapping[str, str]] = {
    "optional outputs": dict.fromkeys(
        ("Dropout 7 mask", "Dropout 10 mask"), "what it is where nothing is dropped is not said"
    ),
    "size 0": {
        **_SCALARS,
        **_FILES,
        "DynamicQuantizeLinear": "what the range of no elements is, is not said",
        "StringNormalizer": "whether of no strings all are removed, which makes an empty one, is not said",
    },
    "size 1": {**_SCALARS, **_FILES},
}


class Share(msgspec.Struct, frozen=True):
    """How many there are in the schemas, which of them no case has, and which none can have, with the reason."""

    known: int
    absent: list[str]
    exempt: Mapping[str, str]

    @property
    def covered(self) -> int:
        return self.known - len(self.absent)


class DomainCoverage(msgspec.Struct, frozen=True):
    """The coverage of the operators of one domain."""

    domain: str
    shares: Mapping[str, Share]


def measure(cases: Iterable[OnnxCase]) -> list[DomainCoverage]:
    """The coverage of both domains: every version since opset 7 of every operator that is not deprecated."""
    found: dict[str, set[tuple[str, ...]]] = {"": set(), ML: set()}
    for case in cases:
        found[case.declared.domain].update(_of_case(case))
    return [DomainCoverage(domain or "ai.onnx", _shares(domain, there)) for domain, there in found.items()]


def _shares(domain: str, there: set[tuple[str, ...]]) -> dict[str, Share]:
    known: dict[str, list[tuple[str, ...]]] = {kind: [] for kind in KINDS}
    for operator in operators_of(domain):
        known["operators"].append(("operators", operator))
        newest = schema_at(operator, max(versions_of(operator, domain).values()), domain)
        for edge in EDGES:
            if _BROADCASTS.search(newest.doc or "") if edge == "broadcasting" else newest.inputs:
                known[edge].append((edge, operator))
        for version, opset in versions_of(operator, domain).items():
            for kind, *rest in _of_schema(schema_at(operator, opset, domain)):
                known[kind].append((kind, operator, str(version), *rest))
    return {kind: _share(kind, each, there) for kind, each in known.items()}


def _share(kind: str, known: Sequence[tuple[str, ...]], there: set[tuple[str, ...]]) -> Share:
    named = {" ".join(thing[1:]): thing for thing in known}
    exempt = {name: why for name, why in EXEMPT.get(kind, {}).items() if name in named}
    absent = [name for name, thing in named.items() if thing not in there and name not in exempt]
    return Share(len(named) - len(exempt), absent, exempt)


def _of_schema(schema: Schema) -> Iterator[tuple[str, ...]]:
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    yield ("versions",)
    for name, types in variables_of(schema).items():
        for type_ in types:
            yield "types", name, type_
    for name in schema.attributes:
        yield "attributes", name
    for each in schema.inputs:
        if each.option == optional:
            yield "optional inputs", each.name
            yield "optional inputs left out", each.name
    for each in schema.outputs:
        if each.option == optional:
            yield "optional outputs", each.name
            yield "optional outputs left out", each.name


def _of_case(case: OnnxCase) -> Iterator[tuple[str, ...]]:
    of = (case.declared.operator, str(case.version))
    yield "operators", of[0]
    yield ("versions", *of)
    for name, type_ in case.types.items():
        yield "types", *of, name, type_
    for name in case.call.named:
        yield "attributes", *of, name
    schema, names = case.schema, case.names
    for each in schema.inputs:
        yield "optional inputs" if each.name in names else "optional inputs left out", *of, each.name
    for number, output in enumerate(schema.outputs):
        yield "optional outputs" if number in case.outputs else "optional outputs left out", *of, output.name
    named = (given for name, given in case.call.named.items() if name in names)
    shapes = [shape for given in (*case.call.given, *named, *case.call.outer.values()) for shape in _shapes(given)]
    if any(0 in shape for shape in shapes):
        yield "size 0", of[0]
    if any(1 in shape for shape in shapes):
        yield "size 1", of[0]
    if len({*shapes}) > 1:
        yield "broadcasting", of[0]


def _shapes(given: Any) -> Iterator[tuple[int, ...]]:
    """Of the tensors of an input."""
    if isinstance(given, Items):
        for item in given.items:
            yield from _shapes(item)
    elif isinstance(given, dict):
        yield (len(given),)
    elif isinstance(given, tuple | Drawn):
        yield given.shape if isinstance(given, Drawn) else given
    elif isinstance(given, list | np.ndarray | int | float | bool):
        yield np.shape(given)
