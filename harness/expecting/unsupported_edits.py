"""Writes `unsupported.toml`: the fewest texts that name what a run found refused, and nothing that it found exported.

A text that names a whole declaration is tried first, then its cells of a dtype or of static or dynamic sizes, then each
case. What is refused in all cases of a dtype, as bfloat16 is below opset 13, is written once for all files.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from onnx_parity.harness.axes import OPSETS, Tier
from onnx_parity.harness.expecting.unsupported import EVERY, Refused, Unsupported, exactly, is_judged
from onnx_parity.harness.record import Record, Status

_HEAD = """\
# What the exporter refuses, because ONNX cannot express it. Written by `parity expect --update`, and to be reviewed:
# a new line may be a lowering that broke. harness/expecting/unsupported.py says how the lines are read.
"""
_WIDTH = 120
#: What this many declarations have in common is not due to one of them.
_SEVERAL = 3
#: How a cell ends that was not refused. Of a cell that is absent, nothing is known.
_EXPORTED = (Status.PASSED, Status.UNEXPECTED_PASS, Status.KNOWN)


@dataclass(frozen=True, slots=True)
class Group:
    """The cells of a case that differ in their opset alone."""

    family: str
    case: str
    dtype: str
    shapes: str

    @property
    def name(self) -> str:
        return self.case.partition("[")[0]


@dataclass(slots=True)
class Opsets:
    """The opsets at which the cells of a group are known to be refused, and to be exported."""

    refused: set[int] = field(default_factory=set)
    exported: set[int] = field(default_factory=set)


Known = dict[Group, Opsets]
#: The file and the name of a declaration.
Declared = tuple[str, str]


def is_refused(record: Record) -> bool | None:
    """Whether the exporter refused the cell; None if that is not known, or if the file does not apply to such cells."""
    if not is_judged(record):
        return None
    if record.status is Status.UNSUPPORTED or record.refused:
        return True
    return False if record.status in _EXPORTED else None


def collect_known(records: Iterable[Record], before: Unsupported | None, others: Iterable[tuple[Group, int]]) -> Known:
    """What the records of a run show; for other cells, given as their group and opset, what the file said before."""
    found: defaultdict[Group, Opsets] = defaultdict(Opsets)
    for record in records:
        refused = is_refused(record)
        if refused is not None:
            opsets = found[Group(record.family, record.case, record.dtype, record.shapes)]
            (opsets.refused if refused else opsets.exported).add(record.opset)
    if before is not None:
        for group, opset in others:
            opsets = found[group]
            if opset not in opsets.refused and opset not in opsets.exported:
                (opsets.refused if before.holds(*_key(group), opset) else opsets.exported).add(opset)
    # A CUDA cell and a CPU cell of an opset may differ, where the program itself does not run on one of them.
    for opsets in found.values():
        opsets.exported -= opsets.refused
    return dict(found)


def write_text(
    tier: Tier, torch: str, groups: Known, before: Unsupported | None = None, changed: Set[Declared] = frozenset()
) -> str:
    """The text of the file. The entries that it had `before` stay as they were, except for the declarations that have
    `changed`: a run has only some of the cells that the file was made from.
    """
    known = [each for each in before.refused if each.family == EVERY] if before is not None else []
    # A run may have none of the cells that such an entry was made from.
    uncontradicted = [each for each in known if not _is_contradicted(each, groups)]
    dtypes = {each.dtype for each in uncontradicted}
    of_dtypes = [*uncontradicted, *(each for each in _of_dtypes(groups) if each.dtype not in dtypes)]
    kept: list[Refused] = []
    if before is not None and of_dtypes == known:
        there = {(group.family, group.name) for group in groups} - changed
        kept = [each for each in before.refused if (each.family, each.name.partition("[")[0]) in there]
        groups = {group: opsets for group, opsets in groups.items() if (group.family, group.name) in changed}
    entries = [*of_dtypes, *kept]
    for name, of_name in itertools.groupby(sorted(groups, key=_place), key=lambda group: (group.family, group.name)):
        entries += _of_declaration(name, {group: groups[group] for group in of_name}, of_dtypes)
    entries.sort(key=lambda entry: entry.name.partition("[")[0])
    tables: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        tables[entry.family][entry.opsets].append(entry.text)
    parts = [_HEAD, f'tier = "{tier}"\n', f'torch = "{torch}"\n' if torch else ""]
    for family, lines in sorted(tables.items()):
        quoted = f'"{family}"' if family == EVERY else family
        parts.append(f"\n[{quoted}]\n" + "".join(_line(opsets, lines[opsets]) for opsets in sorted(lines, key=_order)))
    return "".join(parts)


def _is_contradicted(entry: Refused, groups: Known) -> bool:
    """Whether a cell was exported that an entry for all declarations names."""
    return any(group.dtype == entry.dtype and opsets.exported & entry.at() for group, opsets in groups.items())


def _of_dtypes(groups: Known) -> Iterator[Refused]:
    """What is refused of a dtype wherever it is known below some opset."""
    for dtype in sorted({group.dtype for group in groups}):
        of_dtype = {group: opsets for group, opsets in groups.items() if group.dtype == dtype}
        bound = min((min(each.exported) for each in of_dtype.values() if each.exported), default=0)
        names = {group.name for group, opsets in of_dtype.items() if any(opset < bound for opset in opsets.refused)}
        if len(names) >= _SEVERAL:
            yield Refused(EVERY, "", dtype, "", f"<{bound}")


def _of_declaration(place: tuple[str, str], groups: Known, before: Sequence[Refused]) -> Iterator[Refused]:
    family, name = place
    left: Known = {}
    for group, opsets in groups.items():
        covered = _find_covered(before, group)
        if opsets.refused - covered:
            left[group] = Opsets(opsets.refused - covered, opsets.exported)
    for text in _texts(left.values()):
        while fitting := [group for group in left if _fits(text, left[group])]:
            entry = _widest(family, name, text, fitting[0], groups)
            yield entry
            for each in fitting:
                if entry.names(*_key(each)):
                    del left[each]


def _texts(groups: Iterable[Opsets]) -> list[str]:
    """The opsets that are written for these groups, those that fit most groups first."""
    groups = list(groups)
    texts = {text: None for opsets in groups for text in _ranges(opsets)}
    return sorted(texts, key=lambda text: (-sum(_fits(text, opsets) for opsets in groups), _order(text)))


def _ranges(opsets: Opsets) -> Iterator[str]:
    """What can be written for a group: everything, everything below an opset, or the opsets one by one."""
    if not opsets.exported:
        yield EVERY
    low, high = min(opsets.refused), max(opsets.refused)
    if not any(opset < high for opset in opsets.exported):
        yield f"<{high + 1}" if high < OPSETS[-1] else EVERY
    elif not any(opset > low for opset in opsets.exported):
        yield f">={low}"
    else:
        yield ",".join(map(str, sorted(opsets.refused)))


def _at(text: str) -> frozenset[int]:
    return Refused("", "", "", "", text).at()


def _fits(text: str, opsets: Opsets) -> bool:
    """Whether the text names all opsets at which a group is refused, and none at which it is exported."""
    return opsets.refused <= _at(text) and not opsets.exported & _at(text)


def _widest(family: str, name: str, text: str, group: Group, groups: Known) -> Refused:
    """The entry that names the group and as many others as it can without naming what is exported."""
    axes = (name, exactly(group.case)), ("", group.dtype), ("", group.shapes)
    entries = (Refused(family, *chosen, text) for chosen in itertools.product(*axes))
    return next(
        entry
        for entry in entries
        if not any(entry.names(*_key(each)) and opsets.exported & entry.at() for each, opsets in groups.items())
    )


def _find_covered(entries: Sequence[Refused], group: Group) -> set[int]:
    return set().union(*(entry.at() for entry in entries if entry.names(*_key(group))))


def _key(group: Group) -> tuple[str, str, str, str]:
    return group.family, group.case, group.dtype, group.shapes


def _place(group: Group) -> tuple[str, str, str, str, str]:
    return group.family, group.name, group.case, group.dtype, group.shapes


def _order(text: str) -> tuple[int, str]:
    return (min(set(OPSETS) - _at(text), default=OPSETS[-1] + 1), text)


def _line(opsets: str, texts: Sequence[str]) -> str:
    quoted = [f'"{text}"' if '"' not in text and "\\" not in text else f"'{text}'" for text in texts]
    line = f'"{opsets}" = [{", ".join(quoted)}]\n'
    if len(line) <= _WIDTH:
        return line
    return f'"{opsets}" = [\n' + "".join(f"    {text},\n" for text in quoted) + "]\n"
