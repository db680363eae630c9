"""The gate: each kind of finding, the policy's action for it, and the output formats."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness import cli
from onnx_parity.harness.gate.findings import Finding, FindingKind
from onnx_parity.harness.gate.formats import headline, junit, lines, markdown, workflow_commands
from onnx_parity.harness.gate.policy import Action, Findings, Policy, PolicyError, Thresholds, read_policy
from onnx_parity.harness.gate.remeasuring import NotMeasuredError
from onnx_parity.harness.gate.verdict import GateResult, judge
from onnx_parity.harness.record import SCHEMA_VERSION, Blame, Metrics, Record, RunEnd, RunInfo, Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError
from tests.records import INFO as OLD_INFO
from tests.records import RECORD, write_run

INFO = replace(OLD_INFO, schema_version=SCHEMA_VERSION, packages={"torch": "2.12.1"}, platform="Linux", cpus=2)
DEFAULT = Policy()
WHOLE = RunEnd("2026-01-31T10:16:00+00:00", whole=True)


def cell(name: str = "a", status: Status = Status.PASSED, headroom: float | None = None, **changes: object) -> Record:
    metrics = None
    if headroom is not None:
        metrics = Metrics(0.0, 0.0, 0.0, 0.0, 0.0, headroom, 1e-6, 0, (), 1.0, 1.0)
    return replace(RECORD, cell=name, status=status, metrics=metrics, **changes)


def store(root: Path, name: str, records: Sequence[Record], info: RunInfo = INFO, end: RunEnd | None = WHOLE) -> Path:
    return write_run(root, records, replace(info, id=name), end)


def gate(
    root: Path, before: Sequence[Record], now: Sequence[Record], policy: Policy = DEFAULT, **info: object
) -> GateResult:
    return judge(store(root, "before", before), store(root, "now", now, replace(INFO, **info)), policy)


def kinds(verdict: GateResult) -> list[FindingKind]:
    return [finding.kind for finding in verdict.findings]


BAD = (Status.FAILED, Status.CRASHED, Status.UNEXPECTED_PASS)


@pytest.mark.parametrize("now", BAD)
@pytest.mark.parametrize("before", [Status.PASSED, Status.KNOWN, Status.UNSUPPORTED, Status.ABSENT])
def test_what_went_wrong_and_did_not_before_is_a_new_failure(tmp_path: Path, before: Status, now: Status) -> None:
    verdict = gate(tmp_path, [cell(status=before)], [cell(status=now)])
    assert kinds(verdict) == [FindingKind.NEW_FAILURE]
    assert verdict.regressed


def test_a_new_cell_that_fails_is_a_new_failure_and_one_that_passes_is_nothing(tmp_path: Path) -> None:
    new = [cell("a"), cell("b", Status.FAILED, reason="off", stage=Stage.COMPARE, blame=Blame.EXPORTER), cell("c")]
    verdict = gate(tmp_path, [cell("a")], new)
    (finding,) = verdict.findings
    assert (finding.kind, finding.subject) == (FindingKind.NEW_FAILURE, "b")
    assert finding.detail == "not in the baseline; failed at compare (exporter): off"


@pytest.mark.parametrize(
    ("now", "kind", "regressed"),
    [
        (Status.UNSUPPORTED, FindingKind.LOST_COVERAGE, True),
        (Status.KNOWN, FindingKind.LOST_COVERAGE, True),
        (Status.ABSENT, FindingKind.CANNOT_RUN_HERE, False),
    ],
)
def test_what_passed_and_does_not_any_more_is_lost(
    tmp_path: Path, now: Status, kind: FindingKind, regressed: bool
) -> None:
    verdict = gate(tmp_path, [cell()], [cell(status=now)])
    assert kinds(verdict) == [kind]
    assert verdict.regressed is regressed


@pytest.mark.parametrize("before", [*BAD, Status.KNOWN, Status.UNSUPPORTED])
def test_what_passes_and_did_not_before_is_a_fix(tmp_path: Path, before: Status) -> None:
    verdict = gate(tmp_path, [cell(status=before)], [cell()])
    assert kinds(verdict) == [FindingKind.FIX]
    assert not verdict.regressed


@pytest.mark.parametrize("status", list(Status))
def test_what_ends_as_before_is_no_finding(tmp_path: Path, status: Status) -> None:
    assert gate(tmp_path, [cell(status=status)], [cell(status=status, reason="in other words")]).findings == []


def test_a_failure_elsewhere_is_a_changed_failure(tmp_path: Path) -> None:
    before = cell(status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.RUNTIME)
    for now in (replace(before, stage=Stage.LOAD), replace(before, blame=Blame.EXPORTER), cell(status=Status.CRASHED)):
        assert kinds(gate(tmp_path / now.stage / str(now.blame), [before], [now])) == [FindingKind.CHANGED_FAILURE]


def test_what_ran_and_was_not_run_is_missing_unless_the_policy_lets_a_share_be(tmp_path: Path) -> None:
    before = [cell(str(number)) for number in range(10)] + [cell("absent", Status.ABSENT)]
    verdict = gate(tmp_path, before, before[1:10])
    assert [(finding.kind, finding.subject) for finding in verdict.findings] == [(FindingKind.NOT_RUN, "0")]
    lenient = Policy(thresholds=Thresholds(not_run_share=0.1))
    assert gate(tmp_path / "lenient", before, before[1:10], lenient).findings == []
    assert len(gate(tmp_path / "more", before, before[2:10], lenient).findings) == 2


@pytest.mark.parametrize(
    ("before", "now", "shrunk"),
    [
        (100.0, 2.0, True),
        (100.0, 10.0, False),
        (1e9, 50.0, False),
        (15.0, 2.0, False),
        (20.0, 2.0, True),
        (2.0, 9.0, False),
    ],
)
def test_headroom_that_shrank_and_is_near_failing(tmp_path: Path, before: float, now: float, shrunk: bool) -> None:
    verdict = gate(tmp_path, [cell(headroom=before)], [cell(headroom=now)])
    assert kinds(verdict) == [FindingKind.SHRUNK_HEADROOM] * shrunk
    assert not verdict.regressed


def exports(seconds: Sequence[float], factor: float = 1.0) -> list[Record]:
    return [
        cell(f"case{number}", case=f"case{number}", seconds={"export": each * factor})
        for number, each in enumerate(seconds)
    ]


def test_a_case_that_exports_slower_than_the_others_do(tmp_path: Path) -> None:
    before = exports([1.0] * 10)
    slower = exports([1.0] * 9 + [1.6])
    assert slower_cases(tmp_path, before, slower) == ["case9"]
    # A machine that is slower as a whole makes no case slower.
    assert slower_cases(tmp_path / "machine", before, exports([1.0] * 10, 3.0)) == []
    assert slower_cases(tmp_path / "both", before, exports([1.0] * 9 + [1.6], 3.0)) == ["case9"]
    # What takes no time takes none longer.
    assert slower_cases(tmp_path / "small", exports([0.01] * 10), exports([0.01] * 9 + [0.04])) == []
    elsewhere = gate(tmp_path / "elsewhere", before, slower, cpus=64)
    assert (elsewhere.findings, elsewhere.times_compared) == ([], False)


def slower_cases(root: Path, before: Sequence[Record], now: Sequence[Record], again: float = 1.6) -> list[str]:
    """The cases that are found to be slower, if those that seem so take `again` times as long by repeated measures."""
    asked: list[tuple[str, ...]] = []

    def measure(suspects: Sequence[str], others: Sequence[str]) -> dict[str, float]:
        asked.append((*suspects, *others))
        return dict.fromkeys(suspects, again)

    verdict = judge(store(root, "before", before), store(root, "now", now), DEFAULT, measure)
    assert verdict.undecided == []
    assert all(len(each) == len(before) for each in asked)
    return [finding.subject for finding in verdict.findings]


def test_an_export_that_took_longer_once_is_not_slower(tmp_path: Path) -> None:
    before, slower = exports([1.0] * 10), exports([1.0] * 9 + [1.6])
    assert slower_cases(tmp_path, before, slower, again=1.1) == []


def test_what_was_measured_once_alone_is_undecided(tmp_path: Path) -> None:
    before, slower = exports([1.0] * 10), exports([1.0] * 9 + [1.6])

    def elsewhere(suspects: Sequence[str], others: Sequence[str]) -> dict[str, float]:
        raise NotMeasuredError("the run was on another machine")

    verdict = judge(store(tmp_path, "before", before), store(tmp_path, "now", slower), DEFAULT, elsewhere)
    assert (verdict.findings, verdict.regressed) == ([], False)
    why = "exports of 1 case took longer and were not measured again, which alone would decide: the run was on another"
    assert verdict.undecided == [f"{why} machine (case9)"]
    assert f"undecided: {verdict.undecided[0]}" in list(lines(verdict))
    assert verdict.undecided[0] in markdown(verdict)


def test_other_load_makes_no_export_slower(tmp_path: Path) -> None:
    """Where both runs say what a processor spent, that is what counts."""
    before = [replace(record, export_cpu=1.0) for record in exports([1.0] * 10)]
    waiting = [replace(record, export_cpu=1.0) for record in exports([1.0] * 9 + [9.0])]
    assert slower_cases(tmp_path, before, waiting) == []
    working = [*waiting[:9], replace(waiting[9], export_cpu=1.6)]
    assert slower_cases(tmp_path / "working", before, working) == ["case9"]


def test_the_terminal_is_not_flooded_by_warnings(tmp_path: Path) -> None:
    before = [cell(str(number), Status.UNSUPPORTED, reason="a" * number) for number in range(30)]
    told = list(lines(gate(tmp_path, before, [replace(record, status=Status.PASSED) for record in before])))
    assert len(told) == 22
    assert told[20] == "warn: fix: 10 more; --junit and --json list all"


@pytest.mark.parametrize("end", [None, RunEnd("2026-01-31T10:16:00+00:00", whole=False)])
def test_a_run_without_its_end_proves_nothing(tmp_path: Path, end: RunEnd | None) -> None:
    before = store(tmp_path, "before", [cell()])
    verdict = judge(before, store(tmp_path, "now", [cell()], end=end), Policy())
    assert kinds(verdict) == [FindingKind.UNFINISHED]
    assert verdict.regressed


def test_outcomes_that_were_reused_are_counted_and_the_old_ones_refused(tmp_path: Path) -> None:
    started = datetime.fromisoformat(INFO.started).timestamp()
    recent, old = (cell(name, reused="r", ran=started - days * 86400) for name, days in (("a", 6), ("b", 9)))
    verdict = gate(tmp_path, [cell("a"), cell("b")], [recent, old])
    assert kinds(verdict) == [FindingKind.REUSED, FindingKind.OUTDATED]
    assert verdict.regressed
    assert headline(verdict) == "regressed: outdated; now against before"
    assert verdict.findings[1].detail == (
        "1 of the reused outcomes are of more than 7 days before the run, the first on 2026-01-22; "
        "parity run --reuse-days runs such cells again"
    )
    assert verdict.environment[-1].startswith("2 of 2 cells (100%) reused: ")
    lenient = Policy(thresholds=Thresholds(reused_days=30))
    assert not gate(tmp_path / "lenient", [cell("a"), cell("b")], [recent, old], lenient).regressed
    release = Policy(findings=Findings(reused=Action.FAIL))
    assert gate(tmp_path / "release", [cell("a")], [recent], release).regressed


def test_a_release_is_not_gated_on_what_was_carried_over(tmp_path: Path) -> None:
    release = Policy(findings=Findings(carried=Action.FAIL))
    carried = [cell(carried="20260101")]
    assert not gate(tmp_path, [cell()], carried).regressed
    assert gate(tmp_path / "release", [cell()], carried, release).regressed


def test_runs_with_other_inputs_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(
        RunStoreError, match=r"with --seed 1, the baseline with --seed 0, so that their cells had other inputs"
    ):
        gate(tmp_path, [cell()], [cell()], seed=1)


def test_an_edited_lowering_or_declaration_is_a_difference_of_the_environment(tmp_path: Path) -> None:
    contents = {f"exporter/{name}.py": "1" for name in "abcdefg"}
    before = store(tmp_path, "before", [cell("a", source="1"), cell("b", source="1")], replace(INFO, contents=contents))
    edited = {**dict.fromkeys(contents, "2"), "exporter/a.py": "1", "exporter/z.py": "1"}
    now = [replace(cell("a", source="2"), name="elu"), cell("b", source="1"), cell("c", source="1")]
    verdict = judge(before, store(tmp_path, "now", now, replace(INFO, contents=edited)), DEFAULT)
    files = "exporter/b.py, exporter/c.py, exporter/d.py, exporter/e.py, exporter/f.py, ..."
    assert verdict.environment == [f"7 files differ: {files}", "1 declaration differs: elu"]
    assert f"environment: 7 files differ: {files}" in list(lines(verdict))
    assert judge(before, before, DEFAULT).environment == []


def test_runs_of_version_1_are_baselines(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "old_runs" / "v1"
    verdict = judge(old, old, Policy())
    assert verdict.findings == []


@pytest.fixture
def regressed(tmp_path: Path) -> GateResult:
    before = [cell(f"elu-opset{opset}", opset=opset) for opset in (7, 8, 9, 13)] + [cell("fixed", Status.FAILED)]
    wrong = [
        replace(each, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason="off | by <1>\n100%")
        for each in before[:3]
    ]
    return gate(
        tmp_path,
        before,
        [*wrong, before[3], cell("fixed")],
        packages={"torch": "2.13.0"},
        missing={"cuda": "no CUDA device"},
    )


DETAIL = "passed in the baseline; failed at compare (exporter): off | by <1>\n100%"
DETAIL_LINE = DETAIL.replace("\n", "\\n")


def test_the_terminal_shows_a_fault_once(regressed: GateResult) -> None:
    case = "elu[alpha=1.0]"
    assert list(lines(regressed)) == [
        f"warn: fix: {case}  1 cell, opset 9, float32: passes; failed at rerun_values in the baseline",
        f"fail: new failure: {case}  3 cells, opset 7-9, float32: {DETAIL_LINE}",
        f"  again:  {RECORD.again}",
        "environment: torch 2.12.1 → 2.13.0",
        "environment: cuda none → no CUDA device",
        "regressed: new failure (3 cells, 1 cause); now against before",
    ]


def test_findings_of_one_cause_are_one_row(tmp_path: Path) -> None:
    """One lowering that broke, in cells of several cases, dtypes and opsets, and one that failed before already."""
    before = [
        cell(f"{case}-{dtype}-{opset}", case=case, dtype=dtype, opset=opset, aten=("aten::elu",))
        for case in ("elu", "elu_") for dtype in ("float32", "float16") for opset in range(7, 12)
    ]  # fmt: skip
    before[3] = replace(before[3], status=Status.FAILED, stage=Stage.LOAD)
    now = [
        replace(each, status=Status.FAILED, stage=Stage.COMPARE, reason=f"output 0 at (0,): runtime {number}, torch 3")
        for number, each in enumerate(before)
    ]
    verdict = gate(tmp_path, before, now)
    assert len(verdict.findings) == 20
    broken, changed = verdict.causes
    assert (broken.kind, broken.subject, broken.findings) == (FindingKind.NEW_FAILURE, "aten::elu", 19)
    assert broken.extent == "19 cells of 2 cases, opset 7-11, float32, float16"
    assert broken.detail.startswith("passed in the baseline; failed at compare: output 0")
    assert (changed.kind, changed.findings) == (FindingKind.CHANGED_FAILURE, 1)
    assert headline(verdict) == "regressed: new failure (19 cells, 1 cause); now against before"


def test_markdown_stays_a_table(regressed: GateResult) -> None:
    text = markdown(regressed).splitlines()
    assert text[0] == "## ❌ parity: regressed: new failure (3 cells, 1 cause); now against before"
    assert text[2:6] == [
        "| cells | passed | failed |",
        "| --- | --- | --- |",
        "| baseline | 4 | 1 |",
        "| run | 2 | 3 |",
    ]
    assert text[7].startswith("The environment differs: torch 2.12.1 → 2.13.0, cuda none")
    row = "| new failure | elu[alpha=1.0] | 3 cells, opset 7-9, float32 | passed in the baseline; failed at compare "
    assert row + "(exporter): off \\| by &lt;1&gt; 100% |" in text
    assert "### Warnings" in text


def test_markdown_is_read_as_a_table(regressed: GateResult) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(regressed))
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2", "h3", "h3"]
    assert not [token for token in tokens if token.type.startswith("html")]
    rows = " ".join(token.type for token in tokens if token.type in ("tr_open", "th_open", "td_open")).split("tr_open")
    assert [len(row.split()) for row in rows[4:]] == [4] * len(rows[4:])
    (cell_of_detail,) = [token.content for token in tokens if token.type == "inline" and "off" in token.content]
    assert cell_of_detail.endswith("off | by &lt;1&gt; 100%")


def test_junit_has_a_case_for_each_finding(regressed: GateResult) -> None:
    suite = ET.fromstring(junit(regressed).encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "3", "1")
    first = suite[0]
    assert (first.get("classname"), first.get("name"), first[0].tag) == ("new_failure", "elu-opset7", "failure")
    assert first[0].text == DETAIL


def test_junit_of_a_run_that_holds_has_a_case_that_passes(tmp_path: Path) -> None:
    suite = ET.fromstring(junit(gate(tmp_path, [cell()], [cell()])).encode())
    assert [(case.get("name"), len(case)) for case in suite] == [("no regression", 0)]


def test_junit_is_xml_whatever_an_error_says(tmp_path: Path) -> None:
    now = cell(status=Status.FAILED, reason="\x1b[31mred\x00")
    suite = ET.fromstring(junit(gate(tmp_path, [cell()], [now])).encode())
    assert suite[0][0].text == "passed in the baseline; failed at rerun_values: red\ufffd"


def test_annotations_stand_beside_the_declaration(regressed: GateResult) -> None:
    (line,) = workflow_commands(regressed)
    place = f"file={RECORD.file},line={RECORD.line},title=new failure"
    assert line.startswith(f"::error {place}::elu[alpha=1.0]  3 cells, opset 7-9, float32: passed in the baseline; ")
    assert line.endswith("off | by <1>%0A100%25")


def test_a_policy_sets_the_actions(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text('[findings]\nnew_failure = "warn"\nfix = "fail"\n[thresholds]\nheadroom_factor = 2\n')
    policy = read_policy(path)
    assert (policy.findings.new_failure, policy.findings.fix) == (Action.WARN, Action.FAIL)
    assert (policy.thresholds.headroom_factor, policy.thresholds.export_factor) == (2.0, 1.5)
    assert not gate(tmp_path, [cell()], [cell(status=Status.FAILED)], policy).regressed
    assert gate(tmp_path / "fix", [cell(status=Status.FAILED)], [cell()], policy).regressed


def test_a_release_of_this_project_runs_afresh() -> None:
    policy = read_policy(Path(__file__).parents[3] / "gate.toml")
    assert policy.findings == Findings(carried=Action.FAIL, reused=Action.FAIL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[findings]\nnew_failures = "warn"', "Object contains unknown field `new_failures` - at `$.findings`"),
        ('[findings]\nfix = "shout"', "Invalid enum value 'shout' - at `$.findings.fix`"),
        ('[thresholds]\nexport_factor = "2"', "Expected `float`, got `str` - at `$.thresholds.export_factor`"),
        ("[thresholds]\nexport_factor = 0.5", "Expected `float` >= 1.0 - at `$.thresholds.export_factor`"),
        ("[thresholds]\nheadroom_below = -1", "Expected `float` >= 0.0 - at `$.thresholds.headroom_below`"),
        ("[thresholds]\nnot_run_share = 1.5", "Expected `float` <= 1.0 - at `$.thresholds.not_run_share`"),
        ("[thresholds]\nexport_seconds = nan", "Expected `float` >= 0.0 - at `$.thresholds.export_seconds`"),
        ("[findings", "Expected ']' at the end of a table declaration"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as error:
        read_policy(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_every_kind_has_its_action() -> None:
    assert [kind.name.lower() for kind in FindingKind] == list(Findings.__struct_fields__)


def test_the_command_ends_as_the_verdict_is(tmp_path: Path) -> None:
    before = store(tmp_path, "before", [cell()])
    good, bad = store(tmp_path, "good", [cell()]), store(tmp_path, "bad", [cell(status=Status.FAILED)])

    def invoke(run: Path, *options: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, ["gate", "--baseline", str(before), "--run", str(run), *options])
        return result.exit_code, result.output

    assert invoke(good, "--no-annotations") == (0, "no regression: good against before\n")
    summary, xml = tmp_path / "summary.md", tmp_path / "gate.xml"
    code, text = invoke(bad, "--markdown", str(summary), "--junit", str(xml), "--annotations")
    assert (code, text.splitlines()[-1]) == (1, "regressed: new failure (1 cell, 1 cause); bad against before")
    assert "::error file=" in text
    assert summary.read_text().startswith("## ❌ parity: regressed")
    assert ET.parse(xml).getroot().get("failures") == "1"
    verdict = msgspec.json.decode(invoke(bad, "--json", "--no-annotations")[1], type=GateResult)
    assert verdict.findings == [
        Finding(
            FindingKind.NEW_FAILURE,
            "a",
            "passed in the baseline; failed at rerun_values",
            "elu[alpha=1.0] float32",
            9,
            RECORD.file,
            RECORD.line,
        )
    ]
    assert invoke(before) == (
        2,
        f"{before} is the run that is compared with it, before. `parity run` makes a new one, and --run names "
        "another.\n",
    )
    for option in ("--markdown", "--junit"):
        assert invoke(good, option, str(tmp_path)) == (2, f"{tmp_path}: Is a directory\n")
    nowhere = tmp_path / "nowhere"
    assert invoke(nowhere) == (2, f"{nowhere} is not a run: it has no run.json. `parity run` makes one.\n")


def test_the_headline_counts_what_fails(regressed: GateResult) -> None:
    assert headline(regressed) == "regressed: new failure (3 cells, 1 cause); now against before"
