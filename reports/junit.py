"""JUnit's XML of a run: one test case for each case, because most readers of it fail at a million."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG, Record, Status
from onnx_parity.reports.arrangement import Case, Declaration
from onnx_parity.reports.coverage import where
from onnx_parity.reports.outcomes import in_words, tally
from onnx_parity.reports.wording import message_excerpt, opsets_named, plural, shortened

FILE = "junit.xml"


class JUnit:
    """Collects the test cases, declaration by declaration. Its texts are kept, and not the records."""

    def __init__(self, name: str) -> None:
        self._suite = ET.Element("testsuite", name=markup_text(name))
        self._numbers = {"failures": 0, "errors": 0, "skipped": 0}
        self._seconds = 0.0

    def add(self, declaration: Declaration) -> None:
        for case in declaration.cases:
            self._add_case(declaration, case)

    def _add_case(self, declaration: Declaration, case: Case) -> None:
        first = case.records[0]
        seconds = sum(sum(record.seconds.values()) for record in case.records)
        self._seconds += seconds
        element = ET.SubElement(
            self._suite,
            "testcase",
            classname=markup_text(f"{declaration.family}.{declaration.name}"),
            name=markup_text(case.label),
            file=markup_text(first.file),
            line=str(first.line),
            time=f"{seconds:.3f}",
        )
        wrong = [record for record in case.records if record.status in WRONG]
        if wrong:
            # JUnit distinguishes a result that is wrong from a test that could not end.
            crashed = any(record.status is Status.CRASHED for record in wrong)
            self._numbers["errors" if crashed else "failures"] += 1
            message = (
                f"{plural(len(wrong), 'cell')}, {opsets_named(record.opset for record in wrong)}: {wrong[0].reason}"
            )
            ET.SubElement(
                element, "error" if crashed else "failure", message=shortened(message), type=where(wrong[0])
            ).text = _text(wrong)
        elif not any(record.status is Status.PASSED for record in case.records):
            self._numbers["skipped"] += 1
            reason = first.reason or in_words(tally(case.records))
            ET.SubElement(element, "skipped", message=shortened(reason))

    def write(self, folder: Path) -> None:
        self._suite.set("tests", str(len(self._suite)))
        for name, number in self._numbers.items():
            self._suite.set(name, str(number))
        self._suite.set("time", f"{self._seconds:.3f}")
        suites = ET.Element("testsuites")
        suites.append(self._suite)
        ET.ElementTree(suites).write(folder / FILE, encoding="utf-8", xml_declaration=True)


def _text(wrong: Sequence[Record]) -> str:
    return f"{message_excerpt(wrong[0].message or wrong[0].reason)}\nagain: {markup_text(wrong[0].again)}"
