"""What the cases of ONNX operators cover of ONNX's own schemas, and what is absent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import onnx

from onnx_parity.harness.onnx_cases.types import Schema, operators_of, schema_at, variables_of, versions_of
from onnx_parity.harness.onnx_node import ML, OnnxCase

__all__ = ["DomainCoverage", "Share", "measure"]

#: What is counted, from the coarse to the fine. Each thing of a version counts by itself.
KINDS = ("operators", "versions", "types", "attributes", "optional inputs", "optional outputs")


class Share(msgspec.Struct, frozen=True):
    """How many there are in the schemas, and which of them no case has."""

    known: int
    absent: list[str]

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
        for version, opset in versions_of(operator, domain).items():
            for kind, *rest in _of_schema(schema_at(operator, opset, domain)):
                known[kind].append((kind, operator, str(version), *rest))
    return {
        kind: Share(len(each), [" ".join(thing[1:]) for thing in each if thing not in there])
        for kind, each in known.items()
    }


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
    for each in schema.outputs:
        if each.option == optional:
            yield "optional outputs", each.name


def _of_case(case: OnnxCase) -> Iterator[tuple[str, ...]]:
    of = (case.declared.operator, str(case.version))
    yield "operators", of[0]
    yield ("versions", *of)
    for name, type_ in case.types.items():
        yield "types", *of, name, type_
    for name in case.call.named:
        yield "attributes", *of, name
    for name in case.names:
        yield "optional inputs", *of, name
    for number in case.outputs:
        if number < len(case.schema.outputs):
            yield "optional outputs", *of, case.schema.outputs[number].name
