"""Escapes texts from outside for the place in which they are shown: a terminal, HTML, Markdown, XML, GitHub.

Names of cases, models and outputs, and messages of errors, may contain any character. Characters that a format cannot
represent, or that it would read as its own syntax, are escaped here.
"""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Control characters except tabs and line breaks; surrogates; and characters that reorder or hide text, such as U+202E
#: and line and paragraph separators.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_LINE_BREAK_OR_TAB = re.compile(r"[\t\n]")
#: The characters that HTML and XML 1.0 allow: no control characters, no surrogates, no noncharacters.
_NOT_IN_MARKUP = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
    rf"|[{''.join(chr(plane + last) for plane in range(0x10000, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF))}]"
)
#: Brackets, and underscores between letters or digits, as in `max_pool2d[k=2]`, are not escaped.
_MARKDOWN_SYNTAX = re.compile(r"[\\`*|]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~|\](?=[\[(:])|\[(?=\^)")


def visible(text: str) -> str:
    r"""The text as a terminal may print it: escape sequences and other invisible characters are shown as `\x1b`."""
    return _INVISIBLE.sub(_escape, text)


def visible_line(text: str) -> str:
    r"""The text as one line of a terminal or a log: line breaks and tabs, too, are shown as `\n` and `\t`."""
    return _LINE_BREAK_OR_TAB.sub(_escape, visible(text))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def markup_text(text: str) -> str:
    """The text without the colours of a terminal. Characters that HTML and XML do not allow are replaced by U+FFFD.

    The characters `<`, `>` and `&` are escaped by the writer of the format.
    """
    return _NOT_IN_MARKUP.sub("\N{REPLACEMENT CHARACTER}", _ANSI.sub("", text))


def markdown_line(text: str) -> str:
    """The text as one line of Markdown that shows it unchanged, for use in a cell of a table."""
    text = " ".join(markup_text(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SYNTAX.sub(r"\\\g<0>", text)


def markdown_code(text: str) -> str:
    """The text as inline code within a cell of a Markdown table."""
    text = " ".join(markup_text(text).split())
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    # Tables are split into cells before code is recognized, so a pipe within code must be escaped too.
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|") if text else ""


# GitHub's workflow commands, `::error file=...,line=...::message`.


def workflow_message(text: str) -> str:
    """The text as the message of a workflow command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """The text as a property of a workflow command, such as its `file`."""
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")
