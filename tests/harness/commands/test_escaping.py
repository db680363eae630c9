"""Texts from outside: whatever they contain, a terminal, Markdown, XML and workflow commands stay well-formed."""

from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from onnx_parity.harness.escaping import (
    markdown_code,
    markdown_line,
    markup_text,
    visible,
    visible_line,
    workflow_message,
    workflow_property,
)
from onnx_parity.harness.gate.findings import Finding, FindingKind, GateCause
from onnx_parity.harness.gate.formats import junit, lines, markdown, workflow_commands
from onnx_parity.harness.gate.policy import Action
from onnx_parity.harness.gate.verdict import GateResult
from onnx_parity.harness.record import Status

#: The first text of all makes Hypothesis build its tables of characters, which takes seconds on a busy machine.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: Any text at all, and often one with what is syntax somewhere.
SYNTAX = st.sampled_from(
    ["|", "\\", "`", "<b>", "](x)", "::error::", "%0A", "\x1b[31m", "\n", "\r", "\0", "\u202e", "\ud800"]
)
TEXTS = st.lists(st.one_of(st.text(max_size=8), SYNTAX), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("avg_pool2d[k=2]\tµ →\n", "avg_pool2d[k=2]\tµ →\n"),
        ("\x1b]0;title\x07\x9b31m", r"\x1b]0;title\x07\x9b31m"),
        ("a\u202eb\ud800\r", r"a\u202eb\ud800\r"),
    ],
)
def test_a_terminal_is_shown_escape_sequences_and_runs_none(text: str, shown: str) -> None:
    assert visible(text) == shown


@patient
@given(TEXTS)
def test_a_terminal_gets_no_control_characters(text: str) -> None:
    assert not [
        character
        for character in visible(text)
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
    ]
    assert len(visible_line(text).splitlines()) <= 1
    visible(text).encode()


@patient
@given(TEXTS)
def test_xml_holds_any_text(text: str) -> None:
    element = ET.Element("e", name=markup_text(text))
    element.text = markup_text(text)
    assert ET.fromstring(ET.tostring(element).decode()).tag == "e"


def inline(source: str) -> list[Token]:
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(source)
    return [child for token in tokens for child in token.children or ()]


@patient
@given(TEXTS)
@example("__0__")
def test_markdown_shows_the_text_as_it_is(text: str) -> None:
    source = f"| a | b |\n|---|---|\n| x{markdown_line(text)}x | {markdown_code(text)} |\n"
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source)
    assert [token.type for token in tokens].count("td_open") == 2
    cells = [token.children or [] for token in tokens if token.type == "inline"][2:]
    plain = " ".join(markup_text(text).split())
    assert {child.type for child in cells[0]} <= {"text", "text_special"}
    assert "".join(child.content for child in cells[0]) == f"x{plain}x"
    assert {child.type for child in cells[1]} <= {"code_inline"}


@patient
@given(TEXTS)
def test_a_workflow_command_stays_one_line_with_its_properties(text: str) -> None:
    command = f"::error file={workflow_property(text)},line=1::{workflow_message(text)}"
    assert len(command.splitlines()) == 1
    properties, _, message = command.removeprefix("::error ").partition("::")
    assert len(properties.split(",")) == 2
    decoded = message.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    assert decoded == visible(text)


@dataclass(frozen=True)
class Names:
    """Texts for the fields of a verdict."""

    subject: str
    detail: str
    case: str
    file: str
    change: str
    run: str


def verdict_of(names: Names) -> GateResult:
    findings = [
        Finding(kind, names.subject, names.detail, names.case, 9, names.file, 3)
        for kind in (FindingKind.NEW_FAILURE, FindingKind.SHRUNK_HEADROOM)
    ]
    causes = [
        GateCause(each.kind, names.subject, "1 cell", names.detail, 1, [names.case], [9], names.case, names.file, 3)
        for each in findings
    ]
    actions = {kind: Action.FAIL if kind is FindingKind.NEW_FAILURE else Action.WARN for kind in FindingKind}
    counts = {Status.PASSED: (1, 1)}
    return GateResult("before", names.run, actions, findings, causes, [names.change], counts, True, [])


@pytest.mark.slow
@patient
@given(st.builds(Names, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS))
def test_every_output_of_the_gate_is_well_formed(names: Names) -> None:
    verdict = verdict_of(names)
    suite = ET.fromstring(junit(verdict).encode())
    assert (suite.get("tests"), len(suite)) == ("2", 2)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown(verdict))
    assert [token.type for token in tokens].count("tr_open") == 3 + 2 * 2
    assert [token.type for token in tokens].count("td_open") == 2 * 2 + 2 * 4
    assert not [token for token in inline(markdown(verdict)) if token.type in ("html_inline", "link_open", "image")]
    assert not [token for token in tokens if token.type == "html_block"]
    for command in workflow_commands(verdict):
        assert command.startswith(("::error ", "::warning "))
        assert len(command.splitlines()) == 1
    assert all(len(line.splitlines()) == 1 for line in lines(verdict))


@patient
@given(TEXTS.filter(lambda text: text.isprintable()))
def test_json_of_a_finding_comes_back(text: str) -> None:
    finding = Finding(FindingKind.FIX, text, text)
    assert json.loads(msgspec.json.encode(finding))["subject"] == text
