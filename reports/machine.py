"""The report for machines and pull requests: `summary.json`, `summary.md`, and a badge as SVG and for shields.io.

`junit.py` writes JUnit's XML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import escape

from onnx_parity.harness.escaping import markdown_code, markdown_line
from onnx_parity.harness.record import RunInfo, Status
from onnx_parity.reports import pieces
from onnx_parity.reports.groups import Group
from onnx_parity.reports.outcomes import count_in_words
from onnx_parity.reports.pages.changes import Changes
from onnx_parity.reports.pages.failures import CauseRow
from onnx_parity.reports.summary import RunMeter, Summary
from onnx_parity.reports.wording import plural, shortened, thousands

#: The Markdown names at most this many causes: it is for a pull request.
_MOST_LISTED = 10


def write_machine_files(
    folder: Path,
    info: RunInfo,
    summary: Summary,
    meter: RunMeter,
    failures: Sequence[Group],
    names: Sequence[Mapping[str, Any]],
    changes: Changes | None,
    causes: Sequence[CauseRow],
    notices: Sequence[str],
    lacks: str,
) -> None:
    """`lacks` is why the run has not all of its cells, in a word; empty if it has."""
    counts = {status.value: number for status, number in sorted(meter.counts.items())}
    described = {
        "schema_version": pieces.VERSION,
        "run": info.id,
        "started": info.started,
        "packages": info.packages,
        "verdict": summary.verdict,
        "wrong": summary.wrong,
        "counts": counts,
        "subjects": summary.subjects,
        "covered": [{key: group[key] for key in ("title", "covered", "of")} for group in names],
        "failures": failures,
        "causes": causes,
        "changes": changes,
        "notices": notices,
    }
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(described)) + b"\n")
    (folder / "summary.md").write_text(
        _markdown(info, summary, meter, causes, changes, notices, lacks), encoding="utf-8"
    )
    passed, ran = meter.counts[Status.PASSED], meter.counts.total() - meter.counts[Status.ABSENT]
    text = f"{thousands(passed)} of {thousands(ran)} passed" if ran else "nothing ran"
    if lacks:
        text = f"{lacks}, {text}"
    is_bad = summary.wrong or bool(changes and changes.regressed)
    colour = "#b3261e" if is_bad else "#9a6700" if lacks else "#2e7d4f" if ran else "#6b7280"
    (folder / "badge.svg").write_text(draw_badge("parity", text, colour), encoding="utf-8")
    # As an error, the badge keeps its colour whatever the page that shows it asks for.
    is_error = is_bad or bool(lacks)
    shields = {"schemaVersion": 1, "label": "parity", "message": text, "color": colour.lstrip("#"), "isError": is_error}
    (folder / "badge.json").write_bytes(msgspec.json.encode(shields) + b"\n")


def _markdown(
    info: RunInfo,
    summary: Summary,
    meter: RunMeter,
    causes: Sequence[CauseRow],
    changes: Changes | None,
    notices: Sequence[str],
    lacks: str,
) -> str:
    counts = ", ".join(count_in_words(status, number) for status, number in meter.counts.most_common())
    mark = "❌" if summary.wrong else "⚠️" if lacks else "✅"
    lines = [f"## {mark} {markdown_line(summary.verdict)}", "", f"{counts}. {summary.scope}"]
    if changes is not None:
        lines += ["", f"**{markdown_line(changes.headline)}**, compared with {markdown_line(changes.baseline)}"]
    lines += ["", *(f"> {markdown_line(each)}" for each in notices)] if notices else []
    lines += ["", *map(_cause_in_markdown, causes[:_MOST_LISTED])] if causes else []
    if len(causes) > _MOST_LISTED:
        lines.append(f"- and {plural(len(causes) - _MOST_LISTED, 'more cause')} of failures")
    return "\n".join([*lines, "", f"Run {markdown_line(info.id)}", ""])


def _cause_in_markdown(cause: CauseRow) -> str:
    where = f"{cause.state.replace('_', ' ')} at {cause.where}, {plural(cause.cells, 'cell')}, {cause.opsets}"
    return f"- {markdown_code(cause.subject)}: {where}: {markdown_line(shortened(cause.reason))}"


def draw_badge(label: str, text: str, colour: str) -> str:
    """Two boxes with texts, whose widths are estimated: a picture has no fonts to measure by."""
    left, right = (7 * len(each) + 12 for each in (label, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(label)}: {escape(text)}"><title>{escape(label)}: {escape(text)}</title>'
        f'<rect width="{left + right}" height="20" rx="3" fill="{colour}"/>'
        f'<path d="M3 0h{left - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14" textLength="{left - 12}">{escape(label)}</text>'
        f'<text x="{left + right / 2}" y="14" textLength="{right - 12}">{escape(text)}</text></g></svg>\n'
    )
