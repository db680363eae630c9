"""What is gathered from records: groups of failures, the run's verdict and pace, traced operators, pages' addresses."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onnx_parity.harness.record import WRONG, Blame, Kind, OnnxUse, Record, RunInfo, Stage, Status
from onnx_parity.harness.results.public_names import NameGroup, PublicName
from onnx_parity.reports.arrangement import arrange, case_address
from onnx_parity.reports.groups import group_outcomes, safe_link
from onnx_parity.reports.outcomes import STATE_NUMBERS, State, Tally
from onnx_parity.reports.pages.names_data import names_data
from onnx_parity.reports.pages.runtimes import Runtimes
from onnx_parity.reports.pages.subjects import Subjects
from onnx_parity.reports.pages.traced import Traced
from onnx_parity.reports.summary import RunMeter, summarize, verdict
from tests.reports.synthetic_run import PASSING

FAILED = replace(PASSING, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason="off by one")


def metered(*records: Record) -> RunMeter:
    meter = RunMeter()
    for declaration in arrange(records):
        meter.add(declaration, declaration.records)
    return meter


def traced(*records: Record) -> Traced:
    found = Traced()
    for declaration in arrange(records):
        found.add(declaration, declaration.records)
    return found


def test_cells_that_end_alike_are_one_group() -> None:
    records = [
        replace(FAILED, cell=f"{opset}-{dtype}", opset=opset, dtype=dtype)
        for opset in (7, 8, 10)
        for dtype in ("float16", "float32")
    ]
    (group,) = group_outcomes(arrange(records)[0].cases, WRONG)
    assert (group.cells, group.opsets, group.where) == (6, "opsets 7–8, 10", "compare · exporter")
    assert group.axes == "float16, float32 · cpu · static · trace · parity · onnxruntime"


def test_the_gravest_group_comes_first() -> None:
    crashed = replace(FAILED, cell="c", case="zeta", status=Status.CRASHED, stage=Stage.RUN)
    surprise = replace(FAILED, cell="u", case="alpha", status=Status.UNEXPECTED_PASS)
    cases = arrange([surprise, FAILED, crashed, replace(PASSING, cell="p")])[0].cases
    assert [group.case for group in group_outcomes(cases, WRONG)] == ["zeta", "elu", "alpha"]


def test_a_group_has_the_number_of_further_reasons() -> None:
    records = [replace(FAILED, cell=str(n), opset=7 + n, reason=f"off by {n}") for n in range(3)]
    (group,) = group_outcomes(arrange(records)[0].cases, WRONG)
    assert (group.reason, group.other_reasons) == ("off by 0", 2)


def test_only_links_to_the_web_are_links() -> None:
    assert safe_link("https://example.org/1") == "https://example.org/1"
    assert safe_link("javascript:alert(1)") == ""


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "Nothing ran."),
        ({Status.ABSENT: 20}, "Nothing could run here: 20 cells absent."),
        ({Status.PASSED: 1200, Status.ABSENT: 20}, "Nothing is wrong: 1,200 of the 1,200 cells that ran passed."),
        ({Status.PASSED: 3, Status.UNSUPPORTED: 2}, "Nothing is wrong: 3 of the 5 cells that ran passed."),
        (
            {Status.PASSED: 3, Status.KNOWN: 1},
            "Nothing new is wrong: 3 of the 4 cells that ran passed.",
        ),
        ({Status.PASSED: 3, Status.UNEXPECTED_PASS: 1}, "1 of the 4 cells that ran is wrong."),
        ({Status.FAILED: 2, Status.CRASHED: 1}, "3 of the 3 cells that ran are wrong."),
    ],
)
def test_verdict(counts: dict[Status, int], words: str) -> None:
    assert verdict(Tally(counts)) == words


def test_the_verdict_tells_what_each_of_several_exporters_gets_wrong() -> None:
    counts = {"parity": Tally({Status.PASSED: 1200}), "torch_script": Tally({Status.FAILED: 2, Status.ABSENT: 1})}
    assert verdict(counts["parity"] + counts["torch_script"], counts) == (
        "Wrong cells of those that ran: parity 0 of 1,200, torch_script 2 of 2."
    )
    assert verdict(counts["parity"], {"parity": counts["parity"]}) == (
        "Nothing is wrong: 1,200 of the 1,200 cells that ran passed."
    )


def test_pace_is_that_of_the_busiest_worker_and_absent_cells_are_not_in_it() -> None:
    records = [
        replace(PASSING, cell="a", worker="gw0", seconds={"export": 0.25, "run": 0.25}),
        replace(PASSING, cell="b", worker="gw1", seconds={"export": 0.25}),
        replace(PASSING, cell="c", worker="gw1", status=Status.ABSENT),
    ]
    pace = metered(*records).pace()
    assert pace is not None
    assert (pace.cells_per_second, pace.workers, pace.busiest) == (4.0, 2, 0.5)
    assert [(stage.name, stage.seconds) for stage in pace.stages] == [("export", 0.5), ("run", 0.25)]


def test_a_run_without_timings_has_no_pace() -> None:
    assert metered(PASSING).pace() is None


def test_the_summary_of_an_empty_run_says_why_it_may_be_empty() -> None:
    summary = summarize(RunInfo(id="r", started="", seed=1, tier="smoke"), RunMeter())
    assert summary.scope == (
        "The run has no records: its selection matched nothing, or it was stopped before its first cell."
    )
    assert not summary.wrong


def test_aten_operators_are_those_traced() -> None:
    records = [
        replace(PASSING, cell="a", opset=9, aten=("aten::elu", "aten::add", "aten::elu")),
        replace(FAILED, cell="b", opset=8, aten=("aten::elu",)),
    ]
    aten = traced(*records).aten
    add, elu = aten["aten::add"], aten["aten::elu"]
    assert (add.cells, add.passed_at, add.wrong_at) == (1, {9}, set())
    assert (elu.cells, elu.opsets, elu.passed_at, elu.wrong_at) == (2, {8, 9}, {9}, {8})


def test_onnx_operators_are_counted_by_version() -> None:
    records = [
        replace(PASSING, cell="a", opset=12, onnx=(OnnxUse("Add", 7, 3), OnnxUse("Add", 7))),
        replace(PASSING, cell="b", opset=13, onnx=(OnnxUse("Add", 13),)),
    ]
    found = {key: (seen.cells, seen.nodes, seen.opsets) for key, seen in traced(*records).onnx.items()}
    assert found == {("", "Add", 7): (1, 4, {12}), ("", "Add", 13): (1, 1, {13})}


def test_cases_are_in_the_order_in_which_people_count() -> None:
    records = [replace(PASSING, cell=str(k), case=f"topk[k={k}]") for k in (10, 9, 100)]
    (declaration,) = arrange(records)
    assert [case.label for case in declaration.cases] == ["topk[k=9]", "topk[k=10]", "topk[k=100]"]


def test_an_operator_and_a_model_of_the_same_name_stay_apart() -> None:
    model = replace(PASSING, cell="m", kind=Kind.MODEL)
    pages = [declaration.cases[0].page for declaration in arrange([PASSING, model])]
    assert len(set(pages)) == 2


@given(st.text(st.characters(exclude_categories=["C"])))
def test_the_address_of_a_case_has_its_name_whatever_that_is(label: str) -> None:
    page, _, shown = case_address(Kind.OPERATOR, "family", "name", label).partition("#")
    assert page == "case.html"
    assert parse_qs(shown, keep_blank_values=True)["case"] == [label]
    assert not set(shown) & set(" <>\"'#")


def test_a_subject_has_its_own_outcomes_where_a_run_has_several() -> None:
    other = replace(PASSING, cell="o", exporter="torch_dynamo", status=Status.FAILED, stage=Stage.COMPARE)
    subjects = summarize(RunInfo(id="r", started="", seed=1, tier="smoke"), metered(PASSING, other)).subjects
    assert [(subject.exporter, subject.outcomes) for subject in subjects] == [
        ("parity", "1 passed"),
        ("torch_dynamo", "1 failed"),
    ]
    assert summarize(RunInfo(id="r", started="", seed=1, tier="smoke"), metered(PASSING)).subjects == ()


def test_subjects_are_compared_where_several_were_run() -> None:
    def cell(exporter: str, opset: int, status: Status, stage: Stage = Stage.RERUN_VALUES) -> Record:
        return replace(PASSING, cell=f"{exporter}{opset}", exporter=exporter, opset=opset, status=status, stage=stage)

    records = [
        cell("parity", 7, Status.PASSED), cell("torch_script", 7, Status.FAILED, Stage.COMPARE),
        cell("parity", 8, Status.UNSUPPORTED, Stage.EXPORT), cell("torch_script", 8, Status.PASSED),
        cell("parity", 9, Status.PASSED), cell("torch_script", 9, Status.FAILED, Stage.LOAD),
        cell("parity", 10, Status.PASSED), cell("torch_script", 10, Status.PASSED),
        # No other exporter reached this one.
        cell("parity", 11, Status.FAILED, Stage.COMPARE),
    ]  # fmt: skip
    (declaration,) = arrange(records)
    subjects = Subjects()
    subjects.add(declaration, declaration.records)
    data = subjects.data()
    assert data["subjects"] == [["parity", "onnxruntime"], ["torch_script", "onnxruntime"]]
    (row,) = data["rows"]
    # Right, silently wrong, broken, refused, did not run; alone right.
    assert (row["points"], row["counts"]) == (4, [[3, 0, 0, 1, 0, 2], [2, 1, 1, 0, 0, 1]])


def test_a_run_of_one_subject_compares_none() -> None:
    (declaration,) = arrange([PASSING, replace(PASSING, cell="b", opset=9)])
    subjects = Subjects()
    subjects.add(declaration, declaration.records)
    assert not subjects.several


def test_models_are_known_by_their_names_and_by_those_of_the_package_that_lists_them() -> None:
    model = replace(PASSING, kind=Kind.MODEL, name="alexnet", case="alexnet[batch]", cell="a")
    listed = replace(model, name="timm_models", case="timm_models[test_vit]", cell="b")
    ours = replace(model, name="torchvision_models", case="torchvision_models[vgg16]", cell="c", status=Status.FAILED)
    seen = traced(model, listed, ours).models
    assert {"alexnet", "timm_models[test_vit]", "vgg16"} <= set(seen)
    assert (seen["timm_models[test_vit]"].cells, seen["vgg16"].wrong_at) == (1, {18})


def test_runtimes_are_compared_where_several_were_given_a_model() -> None:
    alone = replace(PASSING, cell="relu-float32-opset18-cpu-trace-onnxruntime", name="relu", case="relu")
    # What onnxruntime has no kernel for is no model that two runtimes were given.
    fallen = replace(alone, cell="tan-float32-opset18-cpu-trace-onnxruntime", name="tan", runtime="onnx.reference")
    both = replace(fallen, cell="tan-float32-opset17-cpu-trace-onnxruntime", opset=17, runtime="onnxruntime")
    wrong = replace(
        FAILED, cell="elu-float32-opset18-cpu-trace-tract", runtime="tract", blame=Blame.RUNTIME, seconds={"run": 0.5}
    )
    runtimes = Runtimes()
    for declaration in arrange([alone, fallen, both]):
        runtimes.add(declaration, declaration.records)
    assert not runtimes.several
    for declaration in arrange([PASSING, wrong]):
        runtimes.add(declaration, declaration.records)
    data = runtimes.data()
    assert (data["subjects"], data["totals"]) == (["onnxruntime", "tract"], [[0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]])
    assert [row["of"][2] for row in data["rows"]] == ["elu"]
    assert data["rows"][0]["scores"] == [[0, [[5, 1, [18]]]], [1, [[0, 1, [18]]]]]
    (finding,) = data["findings"]
    assert (finding["subject"], finding["right"], finding["others"], finding["blame"]) == (1, 1, 1, "runtime")


def test_public_names_have_a_state_at_each_opset_and_no_gap_where_onnx_lacks_a_dtype() -> None:
    """ONNX got bfloat16 with opset 13. What of float16 is refused is a gap."""
    called = [replace(PASSING, opset=opset, calls=("torch.elu",)) for opset in (9, 11, 13)]
    late = replace(called[0], dtype="bfloat16", status=Status.UNSUPPORTED)
    refused = replace(called[1], dtype="float16", status=Status.UNSUPPORTED)
    (row,) = traced(*called, late, refused).called()
    assert row["name"] == "torch.elu" and row["cells"] == 5
    states = {9: State.PASSED, 11: State.PARTLY, 13: State.PASSED}
    assert row["states"] == {opset: STATE_NUMBERS[state] for opset, state in states.items()}


def test_models_of_a_package_that_is_missing_are_absent_and_not_zero_of_one() -> None:
    missing = replace(PASSING, kind=Kind.MODEL, name="timm_models", case="timm_models", status=Status.ABSENT)
    listed = NameGroup("Models of timm", "models", [PublicName("timm_models", "timm is missing", counts=False)])
    (group,) = names_data([listed], traced(missing))
    assert (group["covered"], group["of"]) == (0, 0)
    assert [row["state"] for row in group["rows"]] == [STATE_NUMBERS[State.ABSENT]]


def test_functions_come_before_methods_and_these_before_what_operators_of_python_call() -> None:
    calls = ("torch.Tensor.__add__", "torch.Tensor.abs", "torch.special.erf", "torch.nn.functional.elu")
    named = [row["name"] for row in traced(replace(PASSING, calls=calls)).called()]
    assert named == ["torch.nn.functional.elu", "torch.special.erf", "torch.Tensor.abs", "torch.Tensor.__add__"]
