"""The formats of a verdict: lines for a terminal, Markdown for a pull request, JUnit XML, GitHub annotations."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

from onnx_parity.harness.escaping import markdown_line, markup_text, visible_line, workflow_message, workflow_property
from onnx_parity.harness.gate.findings import Finding, FindingKind, GateCause
from onnx_parity.harness.gate.policy import Action
from onnx_parity.harness.gate.verdict import GateResult

#: Markdown lists at most this many causes for each action; JUnit XML has all findings.
_MOST = 50
#: The terminal lists at most this many causes for each kind of warning, and all failures.
_MOST_WARNED = 20
#: These are no findings about cells.
_OF_THE_RUN = (FindingKind.UNFINISHED, FindingKind.CARRIED, FindingKind.REUSED, FindingKind.OUTDATED)
_TITLES = {Action.FAIL: "Regressed", Action.WARN: "Warnings"}


def headline(verdict: GateResult) -> str:
    if verdict.damage and not verdict.regressed:
        return outcome(verdict)
    return f"{outcome(verdict)}{';' if verdict.regressed else ':'} {verdict.run} against {verdict.baseline}"


def outcome(verdict: GateResult) -> str:
    """The headline without the names of the runs."""
    if verdict.regressed:
        return f"regressed: {', '.join(filter(None, (_count_causes(kind, verdict) for kind in FindingKind)))}"
    return f"undecided: {verdict.damage}" if verdict.damage else "no regression"


def _count_causes(kind: FindingKind, verdict: GateResult) -> str:
    """`new failure (31 cells, 3 causes)`; empty if no finding of this kind fails the gate."""
    causes = [cause for cause in verdict.causes_with(Action.FAIL) if cause.kind is kind]
    if not causes or kind in _OF_THE_RUN:
        return kind if causes else ""
    cells, what = sum(cause.findings for cause in causes), "case" if kind is FindingKind.SLOWER_EXPORT else "cell"
    return f"{kind} ({cells} {what}{'s' * (cells != 1)}, {len(causes)} cause{'s' * (len(causes) != 1)})"


def lines(verdict: GateResult) -> Iterator[str]:
    """A row for each cause, warnings before failures, and the headline at the end."""
    for action in (Action.WARN, Action.FAIL):
        numbers: Counter[FindingKind] = Counter()
        for cause in verdict.causes_with(action):
            numbers[cause.kind] += 1
            if action is Action.FAIL or numbers[cause.kind] <= _MOST_WARNED:
                yield visible_line(f"{action}: {cause.kind}: {_describe(cause)}")
                if action is Action.FAIL and cause.again and cause.kind is not FindingKind.NOT_RUN:
                    yield visible_line(f"  again:  {cause.again}")
        for kind, number in numbers.items():
            if action is Action.WARN and number > _MOST_WARNED:
                yield f"{action}: {kind}: {number - _MOST_WARNED} more; --junit and --json list all"
    for undecided in verdict.undecided:
        yield visible_line(f"undecided: {undecided}")
    for change in verdict.environment:
        yield visible_line(f"environment: {change}")
    yield visible_line(headline(verdict))


def markdown(verdict: GateResult) -> str:
    """A summary for a pull request."""
    mark = "❌" if verdict.regressed or verdict.damage else "✅"
    parts = [f"## {mark} parity: {markdown_line(headline(verdict))}", "", *_counts(verdict), "", _environment(verdict)]
    for action, title in _TITLES.items():
        causes = verdict.causes_with(action)
        if not causes:
            continue
        parts += ["", f"### {title}", "", "| finding | cause | cells | details |", "|---|---|---|---|"]
        for cause in causes[:_MOST]:
            texts = (cause.kind, cause.subject, cause.extent, cause.detail)
            parts.append(f"| {' | '.join(map(markdown_line, texts))} |")
        if len(causes) > _MOST:
            parts.append(f"| | | | {len(causes) - _MOST} more |")
    parts += ["", *map(markdown_line, verdict.undecided)] if verdict.undecided else []
    return "\n".join(parts) + "\n"


def _counts(verdict: GateResult) -> list[str]:
    names = [status.replace("_", " ") for status in verdict.counts]
    before, now = ([str(pair[side]) for pair in verdict.counts.values()] for side in (0, 1))
    rows = [["cells", *names], ["---"] * (len(names) + 1), ["baseline", *before], ["run", *now]]
    return [f"| {' | '.join(row)} |" for row in rows]


def _environment(verdict: GateResult) -> str:
    if not verdict.environment:
        return "The environment is the same."
    times = "" if verdict.times_compared else " Times were not compared because the machines differ."
    return f"The environment differs: {markdown_line(', '.join(verdict.environment))}.{times}"


def _describe(cause: GateCause) -> str:
    """`aten::elu  31 cells of 5 cases, opset 7-26, float32: passed in the baseline; failed at compare: off by 0.5`."""
    where = "  ".join(filter(None, (cause.subject, cause.extent)))
    return f"{where}: {cause.detail}" if where else cause.detail


def junit(verdict: GateResult) -> str:
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


def workflow_commands(verdict: GateResult) -> Iterator[str]:
    """GitHub workflow commands, which show a finding beside the line that declares its case."""
    for action, command in ((Action.FAIL, "error"), (Action.WARN, "warning")):
        for cause in verdict.causes_with(action):
            if cause.kind is FindingKind.FIX:
                continue
            place = f"file={workflow_property(cause.file)},line={cause.line}," if cause.file else ""
            yield f"::{command} {place}title={workflow_property(cause.kind)}::{workflow_message(_describe(cause))}"
