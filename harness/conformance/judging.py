"""Judges a submission: what each test of a list came to, with waivers, and outputs that are only files.

Nothing that a runner says of itself is believed where its outputs are there: these are judged again.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnx_parity.harness.conformance.manifest import (
    LISTS,
    MANIFEST,
    Manifest,
    PackError,
    Test,
    changed_files,
    read_manifest,
)
from onnx_parity.harness.conformance.submission import (
    GRAVE,
    OUTPUTS,
    RESULTS,
    Ran,
    Result,
    Submission,
    Submitted,
    Waiver,
    read_submission,
)
from onnx_parity.harness.conformance.values import compare_outputs, read_expected, read_value
from onnx_parity.harness.onnx_cases.given import Value

__all__ = ["JudgedTest", "Judgement", "Pack", "Score", "judge_submission", "open_pack"]


class JudgedTest(msgspec.Struct, frozen=True):
    """A test, and what it came to."""

    id: str
    operators: dict[str, int]
    types: list[str]
    opset: int
    lists: list[str]
    result: Result
    reason: str = ""
    #: The reason of a waiver that covers it, with its link.
    waived: str = ""
    seconds: float = 0.0

    @property
    def counts_against(self) -> bool:
        return self.result in GRAVE and not self.waived


class Score(msgspec.Struct, frozen=True):
    """How the tests of a list ended: every test is in one of these, and those that a waiver covers are counted too."""

    tests: int
    results: dict[Result, int]
    waived: int


class Judgement(msgspec.Struct, frozen=True):
    """What a submission came to."""

    submission: Submission
    #: For the list that was asked for, and each other list of which all tests are in it.
    scores: dict[str, Score]
    tests: list[JudgedTest]
    #: What is wrong with the submission itself, but does not keep it from being judged.
    notes: list[str]

    @property
    def conforms(self) -> bool:
        """Whether nothing is wrong, crashes or hangs, but for waivers; and whether something is right."""
        return not any(each.counts_against for each in self.tests) and any(
            each.result is Result.RIGHT for each in self.tests
        )


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that submissions are judged by."""

    folder: Path
    manifest: Manifest
    digest: str

    def check(self, tell: Callable[[int], object] = int) -> None:
        """Compare every file with the manifest. `tell` is called with the number of each test."""
        for number, test in enumerate(self.manifest.tests):
            tell(number)
            for line in changed_files(self.folder, test):
                raise PackError(line)


def open_pack(folder: Path) -> Pack:
    manifest = read_manifest(folder)
    return Pack(folder, manifest, hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest())


def _why_unused(waiver: Waiver, version: str, today: date) -> str:
    """Why a waiver that names tests covers none of their results."""
    if today > waiver.until:
        return f"it ended on {waiver.until}"
    if not any(fnmatch.fnmatchcase(version, each) for each in waiver.versions):
        return f"it is for {', '.join(waiver.versions)}, and the version of the runtime is {version!r}"
    return "the tests that it names do not fail in a way that it covers"


def judge_submission(folder: Path, pack: Pack, today: date | None = None) -> Judgement:
    submitted = read_submission(folder)
    about = submitted.about
    if about.pack != pack.digest:
        raise PackError(f"{folder} was made with another pack: the SHA-256 of {pack.folder / MANIFEST} is another one.")
    if about.list not in LISTS:
        raise PackError(f"{folder} names the list {about.list!r}; there are {', '.join(LISTS)}.")
    tests = {test.id: test for test in pack.manifest.tests}
    for id_ in submitted.results:
        if id_ not in tests:
            raise PackError(f"{folder / RESULTS} has a result for {id_}, which is no test of the pack.")
    notes: list[str] = []
    asked = [test for test in tests.values() if about.list in test.lists or test.id in submitted.results]
    used: set[Waiver] = set()
    judged = [_judge_test(test, submitted, pack.folder, today or date.today(), used, notes) for test in asked]
    unused = [each for each in submitted.waivers if each not in used]
    elsewhere = [each for each in unused if not any(map(each.names, tests))]
    version, now = about.runtime.version, today or date.today()
    notes += [
        f"The waiver for {', '.join(each.ids)} covers nothing: {_why_unused(each, version, now)}."
        for each in unused
        if each not in elsewhere
    ]
    if elsewhere:  # A list of waivers is for packs of any size.
        names = ", ".join(name for each in elsewhere for name in each.ids)
        notes.append(f"Waivers that name no test of this pack, {len(elsewhere)} of {len(submitted.waivers)}: {names}.")
    lists = [name for name in LISTS if name == about.list or _is_within(name, about.list, tests.values())]
    scores = {name: _score([each for each in judged if name in each.lists]) for name in lists}
    return Judgement(about, scores, judged, notes)


def _is_within(name: str, asked: str, tests: Iterable[Test]) -> bool:
    named = [test for test in tests if name in test.lists]
    return bool(named) and all(asked in test.lists for test in named)


def _score(tests: list[JudgedTest]) -> Score:
    counts = Counter(test.result for test in tests)
    return Score(
        len(tests),
        {result: counts[result] for result in Result if result in counts},
        sum(bool(test.waived) for test in tests),
    )


def _judge_test(
    test: Test, submitted: Submitted, pack: Path, today: date, used: set[Waiver], notes: list[str]
) -> JudgedTest:
    ran = submitted.results.get(test.id, Ran(test.id, Result.ABSENT, "there is no result for it"))
    result, reason = ran.result, ran.reason
    outputs = submitted.folder / OUTPUTS / test.id
    if not outputs.resolve().is_relative_to(submitted.folder.resolve()):
        raise PackError(f"{outputs} leads out of {submitted.folder}.")
    if result in (Result.RAN, Result.RIGHT, Result.WRONG) and (outputs.is_dir() or result is Result.RAN):
        difference = _compare(test, outputs, pack)
        result, reason = (Result.WRONG, difference) if difference else (Result.RIGHT, "")
        if ran.result not in (Result.RAN, result):
            notes.append(f"{test.id} is {result} by its outputs, and {ran.result} by {RESULTS}.")
    version = submitted.about.runtime.version
    covering = [each for each in submitted.waivers if each.covers(test.id, result, version, today)]
    waived = ""
    if covering:
        used.add(covering[0])
        waived = f"{covering[0].reason} ({covering[0].link})"
    return JudgedTest(test.id, test.operators, test.types, test.opset, test.lists, result, reason, waived, ran.seconds)


def _compare(test: Test, outputs: Path, pack: Path) -> str:
    """How the outputs in files differ from what is expected; empty if they do not."""
    for number in range(test.data_sets):
        folder = f"test_data_set_{number}"
        expected = [read_expected(each, pack / test.folder / folder, index) for index, each in enumerate(test.outputs)]
        given: list[Value] = []
        for index, each in enumerate(test.outputs):
            path = outputs / folder / f"output_{index}.pb"
            try:
                given.append(read_value(path, each.type))
            except (OSError, DecodeError, TypeError, ValueError) as error:
                return f"{folder}/output_{index}.pb cannot be read: {error}"
        difference = compare_outputs(test.outputs, given, expected)
        if difference:
            return difference if test.data_sets == 1 else f"{folder}: {difference}"
    return ""
