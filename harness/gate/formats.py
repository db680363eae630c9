"""The formats of a verdict: lines for a terminal, Markdown for a pull request, JUnit XML, GitHub annotations."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence

from onnx_parity.harness.escaping import markdown_line, markup_text, visible_line, workflow_message, workflow_property
from onnx_parity.harness.gate.findings import Finding, FindingKind, grouped
from onnx_parity.harness.gate.policy import Action
from onnx_parity.harness.gate.verdict import Verdict
from onnx_parity.harness.opset_ranges import opset_ranges

#: Markdown lists at most this many groups of findings for each action; JUnit XML has all findings.
_MOST = 50
#: The terminal lists at most this many groups of each kind of warning, and all failures.
_MOST_WARNED = 20
_TITLES = {Action.FAIL: "Regressed", Action.WARN: "Warnings"}


def headline(verdict: Verdict) -> str:
    failing = verdict.with_action(Action.FAIL)
    if not failing and verdict.damage:
        return f"undecided: {verdict.damage}"
    if not failing:
        return f"no regression: {verdict.run} against {verdict.baseline}"
    kinds = {kind: sum(finding.kind is kind for finding in failing) for kind in FindingKind}
    counted = ", ".join(f"{kind} ({number})" for kind, number in kinds.items() if number)
    return f"regressed: {counted}; {verdict.run} against {verdict.baseline}"


def lines(verdict: Verdict) -> Iterator[str]:
    """One line for each group of findings, warnings before failures, and the headline at the end."""
    for action in (Action.WARN, Action.FAIL):
        numbers: Counter[FindingKind] = Counter()
        for (kind, case, detail), alike in grouped(verdict.with_action(action)).items():
            numbers[kind] += 1
            if action is Action.FAIL or numbers[kind] <= _MOST_WARNED:
                yield visible_line(f"{action}: {kind}: {_where(case, alike)}{detail}")
        for kind, number in numbers.items():
            if action is Action.WARN and number > _MOST_WARNED:
                yield f"{action}: {kind}: {number - _MOST_WARNED} more; --junit and --json list all"
    for change in verdict.environment:
        yield visible_line(f"environment: {change}")
    yield visible_line(headline(verdict))


def markdown(verdict: Verdict) -> str:
    """A summary for a pull request."""
    mark = "❌" if verdict.regressed or verdict.damage else "✅"
    parts = [f"## {mark} parity: {markdown_line(headline(verdict))}", "", *_counts(verdict), "", _environment(verdict)]
    for action, title in _TITLES.items():
        groups = grouped(verdict.with_action(action))
        if not groups:
            continue
        parts += ["", f"### {title}", "", "| finding | cells | details |", "|---|---|---|"]
        for (kind, case, detail), alike in list(groups.items())[:_MOST]:
            where = _where(case, alike).removesuffix(": ")
            parts.append(f"| {kind} | {markdown_line(where)} | {markdown_line(detail)} |")
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
    times = "" if verdict.times_compared else " Times were not compared because the machines differ."
    return f"The environment differs: {markdown_line(', '.join(verdict.environment))}.{times}"


def _where(case: str, alike: Sequence[Finding]) -> str:
    if not case:
        return ""
    opsets = {finding.opset for finding in alike if finding.opset}
    return f"{case} opset {opset_ranges(opsets)}: " if opsets else f"{case}: "


def junit(verdict: Verdict) -> str:
    """JUnit XML: a failed test case for every failure, a skipped one for every warning, a passed one if none fails."""
    failing, warned = verdict.with_action(Action.FAIL), verdict.with_action(Action.WARN)
    suite = ET.Element("testsuite", name="parity gate", failures=str(len(failing)), skipped=str(len(warned)))
    suite.set("errors", "1" if verdict.damage else "0")
    for findings, outcome in ((failing, "failure"), (warned, "skipped")):
        for finding in findings:
            detail = markup_text(finding.detail)
            ET.SubElement(_test_case(suite, finding), outcome, message=detail).text = detail
    if verdict.damage:
        damaged = ET.SubElement(suite, "testcase", classname="gate", name="damaged run")
        ET.SubElement(damaged, "error", message=markup_text(verdict.damage))
    elif not failing:
        ET.SubElement(suite, "testcase", classname="gate", name="no regression")
    suite.set("tests", str(len(suite)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _test_case(suite: ET.Element, finding: Finding) -> ET.Element:
    attributes = {"classname": finding.kind.value.replace(" ", "_"), "name": markup_text(finding.subject or "run")}
    if finding.file:
        attributes |= {"file": markup_text(finding.file), "line": str(finding.line)}
    return ET.SubElement(suite, "testcase", attributes)


def workflow_commands(verdict: Verdict) -> Iterator[str]:
    """GitHub workflow commands, which show a finding beside the line that declares its case."""
    for action, command in ((Action.FAIL, "error"), (Action.WARN, "warning")):
        for (kind, case, detail), alike in grouped(verdict.with_action(action)).items():
            if kind is FindingKind.FIX:
                continue
            first = alike[0]
            place = f"file={workflow_property(first.file)},line={first.line}," if first.file else ""
            message = workflow_message(f"{_where(case, alike)}{detail}")
            yield f"::{command} {place}title={workflow_property(kind)}::{message}"
