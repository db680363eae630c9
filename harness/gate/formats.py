"""A verdict as those read it who asked: Markdown for the pull request, JUnit XML, annotations, lines in a terminal."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence

from onnx_parity.harness.gate.findings import Finding, Kind, grouped
from onnx_parity.harness.gate.policy import Action
from onnx_parity.harness.gate.verdict import Verdict
from onnx_parity.harness.results.summary import ranges

#: Groups of findings of one kind that Markdown names; JUnit XML has them all.
_MOST = 50
#: Groups of a kind that the terminal warns of; those that fail are all shown.
_MOST_WARNED = 20
#: What errors may hold, colours of a terminal among it, and XML 1.0 may not.
_XML_CANNOT_SAY = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TITLES = {Action.FAIL: "Regressed", Action.WARN: "To be looked at"}


def headline(verdict: Verdict) -> str:
    failing = verdict.with_action(Action.FAIL)
    if not failing:
        return f"no regression: {verdict.run} against {verdict.baseline}"
    kinds = {kind: sum(finding.kind is kind for finding in failing) for kind in Kind}
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    return f"regressed: {told}; {verdict.run} against {verdict.baseline}"


def lines(verdict: Verdict) -> Iterator[str]:
    """One line a group of findings, the gravest first, then the headline."""
    for action in (Action.WARN, Action.FAIL):
        told: Counter[Kind] = Counter()
        for (kind, case, detail), alike in grouped(verdict.with_action(action)).items():
            told[kind] += 1
            if action is Action.FAIL or told[kind] <= _MOST_WARNED:
                yield f"{action}: {kind}: {_where(case, alike)}{detail}"
        for kind, number in told.items():
            if action is Action.WARN and number > _MOST_WARNED:
                yield f"{action}: {kind}: {number - _MOST_WARNED} more, which --junit and --json have"
    for change in verdict.environment:
        yield f"environment: {change}"
    yield headline(verdict)


def markdown(verdict: Verdict) -> str:
    """A summary for a pull request."""
    mark = "❌" if verdict.regressed else "✅"
    parts = [f"## {mark} parity: {headline(verdict)}", "", *_counts(verdict), "", _environment(verdict)]
    for action, title in _TITLES.items():
        groups = grouped(verdict.with_action(action))
        if not groups:
            continue
        parts += ["", f"### {title}", "", "| | cells | what |", "|---|---|---|"]
        for (kind, case, detail), alike in list(groups.items())[:_MOST]:
            parts.append(f"| {kind} | {_cell(_where(case, alike).removesuffix(': '))} | {_cell(detail)} |")
        if len(groups) > _MOST:
            parts.append(f"| | | {len(groups) - _MOST} more |")
    return "\n".join(parts) + "\n"


def _counts(verdict: Verdict) -> list[str]:
    names = [status.replace("_", " ") for status in verdict.counts]
    before, now = ([str(pair[side]) for pair in verdict.counts.values()] for side in (0, 1))
    rows = [["cells", *names], ["---"] * (len(names) + 1), ["baseline", *before], ["run", *now]]
    return [f"| {' | '.join(row)} |" for row in rows]


def _environment(verdict: Verdict) -> str:
    if not verdict.environment:
        return "The environment is the same."
    times = "" if verdict.times_compared else " Times were not compared, for the machines differ."
    return f"The environment differs: {', '.join(verdict.environment)}.{times}"


def _where(case: str, alike: Sequence[Finding]) -> str:
    if not case:
        return ""
    opsets = {finding.opset for finding in alike if finding.opset}
    return f"{case} opset {ranges(opsets)}: " if opsets else f"{case}: "


def _cell(text: str) -> str:
    """Text that stays inside its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def junit(verdict: Verdict) -> str:
    """A test case for every finding that fails or warns, and one that passes where none fails."""
    failing, warned = verdict.with_action(Action.FAIL), verdict.with_action(Action.WARN)
    suite = ET.Element(
        "testsuite", name="parity gate", failures=str(len(failing)), skipped=str(len(warned)), errors="0"
    )
    for findings, outcome in ((failing, "failure"), (warned, "skipped")):
        for finding in findings:
            detail = _XML_CANNOT_SAY.sub("\N{REPLACEMENT CHARACTER}", finding.detail)
            ET.SubElement(_test_case(suite, finding), outcome, message=detail).text = detail
    if not failing:
        ET.SubElement(suite, "testcase", classname="gate", name="no regression")
    suite.set("tests", str(len(suite)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _test_case(suite: ET.Element, finding: Finding) -> ET.Element:
    attributes = {"classname": finding.kind.value.replace(" ", "_"), "name": finding.subject or "run"}
    if finding.file:
        attributes |= {"file": finding.file, "line": str(finding.line)}
    return ET.SubElement(suite, "testcase", attributes)


def workflow_commands(verdict: Verdict) -> Iterator[str]:
    """What GitHub calls workflow commands: they put a finding beside the line that declares its case."""
    for action, command in ((Action.FAIL, "error"), (Action.WARN, "warning")):
        for (kind, case, detail), alike in grouped(verdict.with_action(action)).items():
            if kind is Kind.FIX:
                continue
            first = alike[0]
            place = f"file={_property(first.file)},line={first.line}," if first.file else ""
            message = f"{_where(case, alike)}{detail}".replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            yield f"::{command} {place}title={_property(kind)}::{message}"


def _property(text: str) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(character, code)
    return text
