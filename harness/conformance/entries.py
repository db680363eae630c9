"""The entries of a scoreboard: a runtime with what each test came to, from a submission or a run of the matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from onnx_parity.harness.cell_ids import runtime_asked
from onnx_parity.harness.conformance.contents import FULL, LANGUAGE_MODELS, MODELS
from onnx_parity.harness.conformance.judging import JudgedTest, Judgement
from onnx_parity.harness.conformance.submission import Result
from onnx_parity.harness.record import Kind, Record, RunInfo
from onnx_parity.harness.results.scoreboard import RuntimeAfterSteps, ending_of

__all__ = ["Entry", "EntryTest", "of_judgement", "of_run"]


class EntryTest(msgspec.Struct, frozen=True):
    """A test of an entry, by the operator or model that it is shown under."""

    id: str
    subject: str
    opset: int
    lists: list[str]
    result: Result
    reason: str
    waived: str
    #: The command that runs it again; empty if the submission does not say it.
    again: str
    #: Its folder in the pack; empty for a cell of a run.
    folder: str = ""


class Entry(msgspec.Struct, frozen=True):
    """What one runtime came to, at one time."""

    runtime: str
    version: str
    platform: str
    started: str
    source: str
    tests: list[EntryTest]


def of_judgement(judgement: Judgement) -> Entry:
    about = judgement.submission
    tests = [
        EntryTest(
            test.id, _subject_of(test), test.opset, test.lists, test.result, test.reason, test.waived,
            f"{about.again} -k '{test.id}'" if about.again else "", f"tests/{test.id}",
        )
        for test in judgement.tests
    ]  # fmt: skip
    name = " ".join(filter(None, (about.runtime.name, about.runtime.settings)))
    return Entry(name, about.runtime.version, about.platform, about.started, f"pack, {about.runner}", tests)


def _subject_of(test: JudgedTest) -> str:
    """The operator of a test that has one, and the name of the program otherwise."""
    return next(iter(test.operators)) if len(test.operators) == 1 else test.id.partition("-")[0].rstrip("_")


def of_run(records: Iterable[Record], info: RunInfo) -> list[Entry]:
    """An entry for each runtime of a run. What the exporter made wrong, or no runtime was given, is left out."""
    tests: defaultdict[str, list[EntryTest]] = defaultdict(list)
    for record in records:
        ending = ending_of(record)
        if ending is None or (record.blame is not None and record.blame.value in ("exporter", "transformation")):
            continue
        lists = [FULL, *([MODELS] if record.kind is Kind.MODEL else [])]
        lists += [LANGUAGE_MODELS] if "language_model" in record.family else []
        result = Result(ending.value)
        reason = "" if result is Result.RIGHT else record.error or record.reason
        tests[str(RuntimeAfterSteps(runtime_asked(record), record.transforms))].append(
            EntryTest(record.cell, record.name, record.opset, lists, result, reason, "", record.again)
        )
    return [
        Entry(name, info.packages.get(name.partition(":")[0], ""), info.platform, info.started, f"run {info.id}", each)
        for name, each in sorted(tests.items())
    ]
