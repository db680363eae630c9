"""The scoreboard of runtimes as a site: static pages, badges, JSON, and the tests that are not right as files.

The entries come from submissions of the conformance pack and from runs of the matrix. Of each runtime the newest entry
is shown; the others are its history.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import tarfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment

from onnx_parity import __version__
from onnx_parity.harness.conformance.entries import Entry, EntryTest
from onnx_parity.harness.conformance.manifest import LISTS
from onnx_parity.harness.conformance.submission import GRAVE, Result
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.reports.machine import draw_badge
from onnx_parity.reports.publish import GENERATOR, publish
from onnx_parity.reports.templating import new_environment
from onnx_parity.reports.wording import natural, shortened, thousands

__all__ = ["write_scoreboard"]

VERSION = 1
_STATIC = Path(__file__).parent / "static"
_SHOWN: list[Result] = [result for result in Result if result is not Result.RAN]
#: The classes of the colours, which are those of the report.
_LOOKS = {
    Result.WRONG: "failed", Result.CRASHED: "crashed", Result.HUNG: "unexpected_pass", Result.REFUSED: "known",
    Result.UNSUPPORTED: "unsupported", Result.ABSENT: "absent", Result.RIGHT: "passed",
}  # fmt: skip
_LISTS = {
    "core": ("Core", "single operators of ONNX"),
    "full": ("Full", "single operators, and the models of the matrix"),
    "models": ("Models", "networks"),
    "language-models": ("Language models", "those of the models that are language models"),
    "node-tests": ("Node tests", "those that ONNX itself generates"),
}
#: At most this many tests of a runtime are listed for an operator. The JSON has all.
_MOST_TESTS = 40


class _Shown:
    """An entry that the tables show, with its name there."""

    def __init__(self, entry: Entry, number: int, label: str) -> None:
        self.entry, self.label, self.anchor = entry, label, f"runtime-{number}"
        self.by_subject: defaultdict[str, list[EntryTest]] = defaultdict(list)
        for test in entry.tests:
            self.by_subject[test.subject].append(test)


def write_scoreboard(entries: Sequence[Entry], out: Path, pack: Path | None = None) -> Path:
    """Write the site to the folder `out`, and return its first page. `pack` is where the files of tests come from."""
    shown = _newest(entries)
    with publish(out) as folder:
        environment = new_environment({"generator": GENERATOR, "version": __version__})
        _copy_static(folder)
        badges = _write_badges(folder, shown)
        subjects = sorted({subject for each in shown for subject in each.by_subject}, key=natural)
        _write_page(environment, folder, "index.html", _overview(shown, entries, badges))
        _write_page(environment, folder, "operators.html", _operators(shown, subjects))
        for subject in subjects:
            _write_page(environment, folder, _page_of(subject), _operator(shown, subject, folder, pack))
        described = {
            "schema_version": VERSION,
            "entries": sorted(entries, key=lambda each: (each.runtime, each.started)),
        }
        (folder / "scoreboard.json").write_bytes(msgspec.json.encode(described) + b"\n")
    return out / "index.html"


def _newest(entries: Sequence[Entry]) -> list[_Shown]:
    latest: dict[tuple[str, str], Entry] = {}
    for entry in sorted(entries, key=lambda each: each.started):
        latest[entry.runtime, entry.source.partition(" ")[0]] = entry
    labels = Counter(_label(entry) for entry in latest.values())
    return [
        _Shown(entry, number, _label(entry) if labels[_label(entry)] == 1 else f"{_label(entry)}, {entry.source}")
        for number, entry in enumerate(sorted(latest.values(), key=lambda each: (each.runtime, each.source)))
    ]


def _label(entry: Entry) -> str:
    return " ".join(filter(None, (entry.runtime, entry.version)))


def _write_page(environment: Environment, folder: Path, page: str, context: dict[str, Any]) -> None:
    template = {"index.html": "scoreboard.html", "operators.html": "scoreboard_operators.html"}
    path = folder / page
    path.parent.mkdir(exist_ok=True)
    root = "../" if "/" in page else ""
    text = environment.get_template(template.get(page, "scoreboard_operator.html")).render(
        context, page=page, root=root
    )
    path.write_text(text, encoding="utf-8")


def _overview(shown: Sequence[_Shown], entries: Sequence[Entry], badges: dict[tuple[str, str], str]) -> dict[str, Any]:
    lists = []
    for name in LISTS:
        rows = []
        for each in shown:
            counts = Counter(test.result for test in each.entry.tests if name in test.lists)
            if counts:
                text = badges[each.anchor, name]
                rows.append({
                    "runtime": each.label, "numbers": [counts[result] for result in _SHOWN], "share": _share(counts),
                    "badge": _badge_of(each, name), "badge_text": f"ONNX {name}: {text}",
                    "platform": each.entry.platform, "source": each.entry.source,
                })  # fmt: skip
        if rows:
            title, note = _LISTS[name]
            lists.append({"name": name, "title": title, "note": note, "rows": rows})
    past = [
        {
            "runtime": entry.runtime, "version": entry.version, "started": entry.started, "source": entry.source,
            "tests": len(entry.tests), "right": sum(test.result is Result.RIGHT for test in entry.tests),
            "grave": sum(test.result in GRAVE for test in entry.tests),
        }
        for entry in sorted(entries, key=lambda each: each.started, reverse=True)
    ]  # fmt: skip
    past.sort(key=lambda row: str(row["runtime"]))
    return {
        "claimed": _claimed(shown), "lists": lists, "results": [str(each) for each in _SHOWN], "grave": len(GRAVE),
        "history": past if len(entries) > len(shown) else [],
    }  # fmt: skip


def _claimed(shown: Sequence[_Shown]) -> list[dict[str, Any]]:
    """What a runtime ran, or did not survive, and got wrong: the gravest first, and what is waived last."""
    found = []
    for each in shown:
        for subject, tests in each.by_subject.items():
            for result in GRAVE:
                for waived in (False, True):
                    alike = [test for test in tests if test.result is result and bool(test.waived) is waived]
                    if alike:
                        found.append((waived, _SHOWN.index(result), each.label, natural(subject), {
                            "runtime": each.label, "subject": subject, "page": _page_of(subject), "result": str(result),
                            "look": _LOOKS[result], "waived": waived, "tests": len(alike),
                            "opsets": opset_ranges(test.opset for test in alike), "reason": shortened(alike[0].reason),
                        }))  # fmt: skip
    return [row for *_, row in sorted(found, key=lambda each: each[:4])]


def _operators(shown: Sequence[_Shown], subjects: Sequence[str]) -> dict[str, Any]:
    rows = []
    for subject in subjects:
        cells = [_cell(each.by_subject.get(subject, []), each.anchor) for each in shown]
        looks = {(cell["look"], cell["text"]) for cell in cells if cell}
        rows.append({"subject": subject, "page": _page_of(subject), "cells": cells, "differs": len(looks) > 1})
    return {"runtimes": [each.label for each in shown], "rows": rows}


def _operator(shown: Sequence[_Shown], subject: str, folder: Path, pack: Path | None) -> dict[str, Any]:
    opsets = sorted({test.opset for each in shown for test in each.by_subject.get(subject, [])})
    rows = []
    for each in shown:
        tests = each.by_subject.get(subject, [])
        if not tests:
            continue
        at = [_cell([test for test in tests if test.opset == opset], each.anchor) for opset in opsets]
        bad = [test for test in tests if test.result not in (Result.RIGHT, Result.ABSENT)]
        bad.sort(key=lambda test: _SHOWN.index(test.result))
        right = next((test for test in tests if test.result is Result.RIGHT), None)
        counts = Counter(test.result for test in tests)
        rows.append({
            "runtime": each.label, "anchor": each.anchor, "cells": at,
            "counts": ", ".join(f"{counts[result]} {result}" for result in _SHOWN if counts[result]),
            "tests": [
                {"id": test.id, "result": str(test.result), "look": _LOOKS[test.result], "opset": test.opset,
                 "reason": test.reason, "waived": test.waived, "again": test.again,
                 "tarball": _write_tarball(test, folder, pack)}
                for test in bad[:_MOST_TESTS]
            ],
            "more": max(0, len(bad) - _MOST_TESTS), "right": right.again if right else "",
        })  # fmt: skip
    return {"subject": subject, "opsets": opsets, "rows": rows}


def _cell(tests: Sequence[EntryTest], anchor: str) -> dict[str, str] | None:
    """The gravest result of some tests, and how many are right."""
    if not tests:
        return None
    counts = Counter(test.result for test in tests)
    gravest = next(result for result in _SHOWN if counts[result])
    return {"look": _LOOKS[gravest], "text": f"{gravest}, {_share(counts)}", "anchor": anchor}


def _share(counts: Counter[Result]) -> str:
    return f"{thousands(counts[Result.RIGHT])} of {thousands(counts.total())}"


def _page_of(subject: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", subject)
    # File systems that do not tell capitals apart would take two pages for one.
    return f"operators/{plain[:80]}-{hashlib.sha256(subject.encode()).hexdigest()[:8]}.html"


def _badge_of(each: _Shown, name: str) -> str:
    return f"badges/{re.sub(r'[^A-Za-z0-9.-]+', '-', each.label)}-{name}.svg"


def _write_badges(folder: Path, shown: Sequence[_Shown]) -> dict[tuple[str, str], str]:
    """A badge of each runtime for each list, as a picture and for shields.io; and their texts."""
    (folder / "badges").mkdir()
    texts = {}
    for each in shown:
        for name in LISTS:
            tests = [test for test in each.entry.tests if name in test.lists]
            grave = sum(test.result in GRAVE and not test.waived for test in tests)
            right = sum(test.result is Result.RIGHT for test in tests)
            if tests:
                text = f"{right * 100 // len(tests)}% right, {thousands(grave)} wrong"
                colour = "#b3261e" if grave else "#2e7d4f"
                path = folder / _badge_of(each, name)
                path.write_text(draw_badge(f"ONNX {name}", text, colour), encoding="utf-8")
                shields = {"schemaVersion": 1, "label": f"ONNX {name}", "message": text, "color": colour.lstrip("#")}
                path.with_suffix(".json").write_bytes(msgspec.json.encode(shields) + b"\n")
                texts[each.anchor, name] = text
    return texts


def _write_tarball(test: EntryTest, folder: Path, pack: Path | None) -> str:
    """The files of a test as one; empty if there are none."""
    source = pack / test.folder if pack is not None and test.folder else None
    if source is None or not source.is_dir():
        return ""
    name = f"tests/{test.id}.tar.gz"
    target = folder / name
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w") as archive:
            for path in sorted(each for each in source.rglob("*") if each.is_file()):
                entry = tarfile.TarInfo(f"{test.id}/{path.relative_to(source).as_posix()}")
                entry.size = path.stat().st_size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
        target.write_bytes(gzip.compress(held.getvalue(), mtime=0))
    return name


def _copy_static(folder: Path) -> None:
    (folder / "static").mkdir()
    for name in ("report.css", "icon.svg", "scoreboard.js"):
        shutil.copyfile(_STATIC / name, folder / "static" / name)
