"""The page of coverage of names: every public name with the outcome of its cells, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from onnx_parity.reports.outcomes import STATE_NUMBERS, State
from onnx_parity.reports.pages.traced import Sightings, Traced


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def why_not(self) -> str: ...
    @property
    def as_others(self) -> bool: ...
    @property
    def counts(self) -> bool: ...


class Group(Protocol):
    """`PublicName`s of one kind, as `onnx_parity.harness.results.public_names` lists them."""

    @property
    def title(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def names(self) -> Iterable[Named]: ...


def names_data(groups: Iterable[Group], traced: Traced) -> list[dict[str, Any]]:
    versions = {f"{op}@{since}": seen for (domain, op, since), seen in traced.onnx.items() if not domain}
    found: Mapping[str, Mapping[str, Sightings]] = {
        "calls": traced.calls,
        "aten": traced.aten,
        "onnx": versions,
        "types": {f"{op}@{since} {dtype}": seen for (op, since, dtype), seen in traced.types.items()},
        "opinfo": traced.opinfo,
        "models": traced.models,
    }
    # A run of an earlier version does not say what its programs call: that is unknown, and not nothing.
    known = (group for group in groups if group.kind != "calls" or traced.calls)
    return [_group_data(group, found[group.kind]) for group in known]


def _group_data(group: Group, found: Mapping[str, Sightings]) -> dict[str, Any]:
    """Its rows, how many names there are to be covered, and how many of these are."""
    rows: list[dict[str, Any]] = []
    of = 0
    for each in group.names:
        seen = found.get(each.name)
        why_not = "" if seen else each.why_not or _WHY_NOT[group.kind]
        # What a package lists cannot be said without the package.
        state = State.ABSENT if group.kind == "models" and not each.counts else _state(seen)
        row = {"name": each.name, "state": STATE_NUMBERS[state], "why": why_not}
        if each.as_others and not seen:
            row["as_others"] = True
        rows.append(row | seen.data() if seen else row)
        of += each.counts or state not in (State.NOT_COVERED, State.ABSENT)
    right = sum(row["state"] == STATE_NUMBERS[State.PASSED] for row in rows)
    return {"title": group.title, "covered": right, "of": of, "rows": rows}


#: Why a name has no cells, if nothing more is known about it.
_WHY_NOT = {
    "calls": "no case of this run calls it",
    "aten": "no case of this run traced it",
    "onnx": "no exported graph of this run has it",
    "types": "no exported graph of a cell of this dtype has it",
    "opinfo": "no case of this run is a sample of it",
    "models": "no model of this run has this name",
}
NOT_TRIED = frozenset(_WHY_NOT.values())


def _state(seen: Sightings | None) -> State:
    """Wrong if one of its cells is, covered if one passed, a known failure if it was exported and failed as expected,
    and unsupported if it was only refused."""
    if seen is None:
        return State.NOT_COVERED
    if seen.wrong_at:
        return State.FAILED
    if seen.passed_at:
        return State.PASSED
    if seen.known_at:
        return State.KNOWN
    return State.UNSUPPORTED if seen.refused_at else State.ABSENT
