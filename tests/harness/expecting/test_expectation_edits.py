"""`parity expect`: the edits that it proposes, after which the expectations describe the run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness import cli
from onnx_parity.harness.expecting.expectation_edits import edit
from onnx_parity.harness.expecting.expectations import Expectation, parse
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.store import RecordWriter, create_run
from tests.records import INFO, METRICS, RECORD

PATH = Path("op_cases/expectations.toml")
KERNEL = """# A comment that stays.

[[known]]
cells  = "topk*"
stage  = "load"
reason = "no kernel"  # nor will there be
link   = "https://example.org/1"
"""
ELU = """
# Another.
[[known]]
cells  = "elu*"
stage  = "compare"
reason = "off"
link   = "https://example.org/2"
"""
TOGETHER = """
# These two have one reason.
[[known]]
cells  = [
    "topk[k=1]-*",
    "elu-*",
]
stage  = "load"
reason = "no kernel"
link   = "https://example.org/1"

# The next.
"""


def record(
    case: str, opset: int, stage: Stage | None, error: str = "no kernel for 3", dtype: str = "float32"
) -> Record:
    return replace(
        RECORD,
        cell=f"{case}-{dtype}-opset{opset}-cpu-trace-onnxruntime",
        case=case,
        name=case.partition("[")[0],
        opset=opset,
        dtype=dtype,
        status=Status.PASSED if stage is None else Status.FAILED,
        stage=stage or Stage.COMPARE,
        reason="" if stage is None else error,
        file="op_cases/some.py",
    )


def proposed(text: str, records: list[Record]) -> str:
    return edit(text, PATH, records, {}).text


def test_what_holds_is_left_to_the_character() -> None:
    records = [record("topk", opset, Stage.LOAD) for opset in (7, 8)] + [record("elu", 7, Stage.COMPARE)]
    assert edit(KERNEL + ELU, PATH, records, {}).changes == []
    assert proposed(KERNEL + ELU, records) == KERNEL + ELU


def test_a_run_without_its_cells_does_not_change_an_expectation() -> None:
    assert proposed(KERNEL, [record("elu", 7, None)]) == KERNEL


def test_an_expectation_whose_cells_all_pass_is_removed() -> None:
    records = [record("topk", 7, None), record("elu", 7, Stage.COMPARE)]
    done = edit(KERNEL + ELU, PATH, records, {})
    assert done.changes == ["remove 'topk*': 1 of its cells pass now"]
    assert done.text == "# A comment that stays.\n" + ELU


@pytest.mark.parametrize(
    ("failing", "passing", "opset"),
    [
        ([7, 8], [9, 13], "<=8"),
        ([13, 18], [9, 12], ">=13"),
        ([9, 10, 11], [7, 8, 18], "9-11"),
        ([9, 11], [7, 18], "9-11"),
        ([9, 13], [7, 11, 18], "9-10,12-13"),
    ],
)
def test_an_expectation_is_narrowed_to_the_opsets_that_fail(failing: list[int], passing: list[int], opset: str) -> None:
    records = [record("topk", each, Stage.LOAD) for each in failing] + [record("topk", each, None) for each in passing]
    done = edit(KERNEL, PATH, records, {})
    (narrowed,) = parse(done.text, PATH)
    assert (narrowed.cells, narrowed.opset, narrowed.link) == ("topk*", opset, "https://example.org/1")
    assert done.changes == [f"narrow 'topk*' to 'topk*', opset = {opset}: {len(passing)} of its cells pass now"]
    assert done.text.startswith("# A comment that stays.\n\n[[known]]\n")


def test_an_expectation_is_narrowed_along_the_axis_that_distinguishes_the_cells() -> None:
    records = [record("topk", opset, Stage.LOAD, dtype="float16") for opset in (9, 13)]
    records += [record("topk", opset, None) for opset in (9, 13)]
    (narrowed,) = parse(proposed(KERNEL, records), PATH)
    assert (narrowed.cells, narrowed.opset, narrowed.dtype) == ("topk*", "", "float16")


def test_what_failed_unforeseen_gets_one_entry_with_its_reason_to_be_written() -> None:
    records = [
        record("sort", opset, Stage.LOAD if opset < 10 else None, f"no kernel for {opset}") for opset in (7, 9, 13)
    ]
    assert proposed("", records) == (
        '[[known]]\ncells  = "sort-*"\nopset  = "<=9"\nstage  = "load"\nerror  = "no kernel for *"\n'
        'reason = ""\nlink   = ""\n'
    )
    cases = [record(f"sort[k={k}]", 9, Stage.LOAD) for k in (1, 2)] + [record("sort_of", 9, None)]
    assert 'cells  = "sort[*"' in proposed("", cases)


def test_a_failure_at_another_stage_moves_from_one_expectation_to_another() -> None:
    records = [record("topk", 9, Stage.CHECK, "bad model")]
    done = edit(KERNEL, PATH, records, {})
    assert done.changes == [
        "remove 'topk*': 1 of its cells fail differently",
        "add 'topk-*': fails at check. Write its reason and its link",
    ]


def test_what_speaks_of_another_environment_is_left_alone() -> None:
    text = KERNEL.replace("stage ", 'packages = { onnxruntime = "<1.20" }\nstage ')
    records = [record("topk", 9, None)]
    assert edit(text, PATH, records, {"onnxruntime": "1.31.1"}).changes == []
    assert edit(text, PATH, records, {"onnxruntime": "1.19.2"}).changes != []


def test_of_a_list_the_selector_whose_cells_pass_is_removed_and_the_others_stay() -> None:
    records = [record("topk[k=1]", 9, Stage.LOAD), record("elu", 9, None)]
    done = edit(TOGETHER + KERNEL, PATH, records, {})
    assert done.changes == ["remove 'elu-*': 1 of its cells pass now"]
    alone = TOGETHER.replace('[\n    "topk[k=1]-*",\n    "elu-*",\n]', '"topk[k=1]-*"')
    assert done.text == alone + KERNEL
    assert edit(
        TOGETHER, PATH, [record("topk[k=1]", 9, None), record("elu", 9, None)], {}
    ).text == "\n# These two have " + ("one reason.\n# The next.\n")


def test_of_three_selectors_one_is_removed_by_taking_its_line_away() -> None:
    three = TOGETHER.replace('    "elu-*",\n', '    "elu-*",\n    "relu-*",\n')
    records = [record("topk[k=1]", 9, Stage.LOAD), record("elu", 9, None), record("relu", 9, Stage.LOAD)]
    assert proposed(three, records) == three.replace('    "elu-*",\n', "")


def test_of_a_list_the_selector_whose_cells_pass_is_narrowed_in_an_entry_of_its_own() -> None:
    records = [record("topk[k=1]", 9, Stage.LOAD), record("elu", 9, Stage.LOAD), record("elu", 13, None)]
    done = edit(TOGETHER, PATH, records, {})
    assert done.changes == ["narrow 'elu-*' to 'elu-*', opset = <=9: 1 of its cells pass now"]
    whole, narrowed = parse(done.text, PATH)
    assert (whole.cells, whole.opset, narrowed.cells, narrowed.opset) == ("topk[k=1]-*", "", "elu-*", "<=9")
    assert whole.reason == narrowed.reason == "no kernel"


def test_failures_with_the_same_error_share_an_entry_unless_numbers_were_compared() -> None:
    def failures(stage: Stage) -> list[Record]:
        return [record(case, 9, stage, f"no kernel for {number}") for number, case in enumerate(("sort", "topk"))]

    assert proposed("", failures(Stage.LOAD)) == (
        '[[known]]\ncells  = [\n    "sort-*",\n    "topk-*",\n]\nstage  = "load"\nerror  = "no kernel for *"\n'
        'reason = ""\nlink   = ""\n'
    )
    assert edit("", PATH, failures(Stage.LOAD), {}).changes == [
        "add 'sort-*', 'topk-*': fails at load. Write its reason and its link"
    ]
    assert proposed("", failures(Stage.COMPARE)).count("[[known]]") == 2


_CELLS = [
    (case, opset, dtype)
    for case, opset, dtype in itertools.product(
        ("topk[k=1]", "topk[k=2]", "elu"), (7, 9, 13, 18), ("float32", "float16")
    )
]
_OUTCOMES = st.sampled_from([(None, ""), (None, ""), (Stage.LOAD, "no kernel for 3"), (Stage.COMPARE, "off by 0.5")])


@pytest.mark.parametrize("examples", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_after_an_edit_the_expectations_describe_the_run(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(_check_an_edit)()


@given(
    st.lists(_OUTCOMES, min_size=len(_CELLS), max_size=len(_CELLS)),
    st.sampled_from(["", KERNEL, KERNEL + ELU, TOGETHER, TOGETHER + ELU]),
)
def _check_an_edit(outcomes: list[tuple[Stage | None, str]], text: str) -> None:
    records = [
        record(case, opset, stage, error, dtype)
        for (case, opset, dtype), (stage, error) in zip(_CELLS, outcomes, strict=True)
    ]
    new = proposed(text, records).replace('reason = ""', 'reason = "why"').replace('link   = ""', 'link   = "where"')
    expectations = parse(new, PATH)
    for each in records:
        applied = next((known.apply(each) for known in expectations if known.matches(each.cell)), each)
        assert applied.status is (Status.PASSED if each.status is Status.PASSED else Status.KNOWN), applied.reason
    assert proposed(new, records) == new


def test_the_command_shows_the_edit_and_writes_it_with_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PATH.parent.mkdir()
    PATH.write_text(KERNEL)
    writer = RecordWriter(create_run(Path("runs"), INFO), "main")
    (known,) = parse(KERNEL, PATH)
    for each in (record("topk", 7, Stage.LOAD), record("topk", 9, None)):
        writer.append(known.apply(each))
    writer.close()
    shown = CliRunner().invoke(cli.app, ["expect"])
    assert shown.exit_code == 1
    assert '+opset  = "<=7"\n' in shown.output
    assert f"{PATH}: narrow 'topk*' to 'topk*', opset = <=7: 1 of its cells pass now" in shown.output
    assert PATH.read_text() == KERNEL
    (told,) = json.loads(CliRunner().invoke(cli.app, ["expect", "--json"]).stdout)
    assert (told["path"], told["written"]) == (str(PATH), False)
    assert told["changes"] == ["narrow 'topk*' to 'topk*', opset = <=7: 1 of its cells pass now"]
    assert '+opset  = "<=7"\n' in told["difference"]
    assert CliRunner().invoke(cli.app, ["expect", "--update"]).exit_code == 0
    assert parse(PATH.read_text(), PATH)[0].opset == "<=7"
    again = CliRunner().invoke(cli.app, ["expect"])
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == "The expectation files agree with runs/last.\n"


def test_an_entry_without_its_reason_holds_for_nothing_and_stops_nothing(tmp_path: Path) -> None:
    known = Expectation("topk*", Stage.LOAD, "", "")
    assert known.matches("topk-float32-opset9-cpu-trace-onnxruntime")
    text = proposed("", [record("topk", 9, Stage.LOAD)])
    (expectation,) = parse(text, PATH)
    assert expectation.lacks == "a reason and a link"
    failed = replace(RECORD, status=Status.FAILED, stage=Stage.LOAD, reason="no kernel")
    applied = expectation.apply(failed)
    assert (applied.status, applied.error) == (Status.FAILED, "no kernel")
    assert applied.reason == (
        "no kernel; expectations.toml expects it, but 'topk-*' has yet to be given a reason and a link"
    )
    # Without its reason, it claims nothing of a cell that passes, and the next edit leaves it alone.
    assert expectation.apply(RECORD) == RECORD
    assert proposed(text, [replace(record("topk", 9, Stage.LOAD), error="")]) == text


def test_a_failure_that_was_seen_with_one_exporter_alone_is_expected_of_it_alone() -> None:
    def theirs(opset: int, stage: Stage | None) -> Record:
        found = record("elu", opset, stage, dtype="float16")
        return replace(found, cell=f"{found.cell}-mine:to_onnx", exporter="mine:to_onnx")

    text = proposed("", [theirs(9, Stage.LOAD), theirs(10, None)])
    assert 'exporter = "mine:to_onnx"\n' in text and 'dtype  = "float16"\n' in text and 'opset  = "<=9"\n' in text
    assert "runtime" not in text
    (expectation,) = parse(text.replace('reason = ""', 'reason = "r"').replace('link   = ""', 'link = "l"'), PATH)
    assert expectation.matches(theirs(9, Stage.LOAD).cell)
    assert not expectation.matches(record("elu", 9, Stage.LOAD, dtype="float16").cell)
    both = proposed("", [theirs(9, Stage.LOAD), record("elu", 9, Stage.LOAD, dtype="float16")])
    assert "exporter" not in both


def test_the_file_of_a_runtime_has_its_own_words_where_it_raised_an_error() -> None:
    cell = "elu[alpha=1.0]-float32-opset{}-cpu-trace-tract"
    failed = replace(RECORD, cell=cell.format(9), runtime="tract", status=Status.FAILED)
    records = [
        replace(failed, stage=Stage.LOAD, reason="RuntimeFailedError: TractError: line 12 is odd"),
        replace(failed, cell=cell.format(18), opset=18, stage=Stage.COMPARE, reason="off by 1"),
    ]
    made = edit("", Path("op_cases/expectations/tract.toml"), records, {}, "https://example.org/issues")
    assert made.text == (
        '[[known]]\ncells  = "elu[alpha=1.0]-*"\nopset  = "<=9"\nstage  = "load"\n'
        'error  = "RuntimeFailedError: TractError: line * is odd"\n'
        'reason = "TractError: line 12 is odd"\nlink   = "https://example.org/issues"\n\n'
        '[[known]]\ncells  = "elu[alpha=1.0]-*"\nopset  = ">=18"\nstage  = "compare"\nerror  = "off by *"\n'
        'reason = ""\nlink   = ""\n'
    )


def test_cells_that_pass_or_fail_by_rounding_leave_their_entry_as_it_is() -> None:
    text = '[[known]]\ncells  = \'lstm-*\'\nstage  = "compare"\nheadroom = 0.5\nreason = "r"\nlink   = "l"\n'
    near = replace(record("lstm", 9, Stage.RERUN_VALUES), metrics=METRICS)
    assert near.metrics is not None
    assert proposed(text, [near, record("lstm", 10, None)]) == text
    far = replace(near, metrics=replace(near.metrics, headroom=0.1))
    changed = proposed(text, [far, record("lstm", 10, None)])
    assert "headroom = 0.5\n" in changed and 'stage  = "rerun_values"\n' in changed


# --- the file of a runtime --------------------------------------------------------------------------------------------


def of_runtime(text: str, records: list[Record]) -> tuple[Expectation, ...]:
    path = Path("op_cases/expectations/theirs.toml")
    return parse(edit(text, path, records, {}, "https://example.org/issues").text, path)


def test_the_errors_of_a_runtime_are_one_entry_in_its_own_words() -> None:
    def error(name: str, lists: str) -> str:
        return f'RuntimeFailedError: TheirError: Evaluating #3 "{name}" ScatterND: index 4 out of bounds {lists}'

    records = [
        record("put", 18, Stage.RUN, error("node_ScatterND", "[[1], [2]]")),
        record("scatter", 18, Stage.RUN, error("node_ScatterND_12", "[[1], [2], [3, 4]]")),
        record("elu", 18, None),
    ]
    one, other = of_runtime("", records)
    assert (one.cells, other.cells) == ("put-*", "scatter-*")
    assert one.error == other.error
    assert one.reason == 'TheirError: Evaluating #3 "node_ScatterND" ScatterND: index 4 out of bounds [[1], [2]]'
    assert (one.link, one.lacks) == ("https://example.org/issues", "")
    for each in records[:2]:
        assert one.foresees(each.stage, each.reason)


def test_a_case_without_attributes_is_named_beside_those_that_have_some() -> None:
    records = [record(case, 18, Stage.RUN, "RuntimeFailedError: no") for case in ("put", "put[k=1]", "put[k=2]")]
    found = of_runtime("", records)
    assert [each.cells for each in found] == ["put-*", "put[k=1]-*", "put[k=2]-*"]
    assert all(any(each.matches(one.cell) for each in found) for one in records)


def test_what_a_runtime_does_not_say_is_left_to_a_person() -> None:
    crashed = replace(record("put", 18, Stage.RUN, "was killed by SIGSEGV in stage run"), status=Status.CRASHED)
    for each in (crashed, record("put", 18, Stage.COMPARE, "output 0 at (0,): runtime 1, torch 2; differs")):
        (proposed,) = of_runtime("", [each])
        assert (proposed.reason, proposed.link) == ("", "")


#: An entry whose pattern and reason a person has written, for all errors of one kind.
SYMBOLS = """[[known]]
cells  = "put-*"
stage  = "load"
error  = "*Undetermined symbol*"
reason = "a size that is computed from a dynamic axis is not known while the model is loaded"
link   = "https://example.org/issues/7"
"""


def test_an_error_that_an_entry_describes_is_given_its_reason_and_written_into_it() -> None:
    def error(node: str, size: str) -> str:
        return f'RuntimeFailedError: TheirError: Translating "{node}" Caused by: Undetermined symbol {size}'

    records = [
        record("put", 18, Stage.LOAD, error("node_ScatterND", "batch")),
        record("split[k=1]", 18, Stage.LOAD, error("node_Split", "batch/2")),
        record("split[k=2]", 18, Stage.LOAD, error("node_Slice", "2*batch")),
        record("pad", 18, Stage.LOAD, error("node_Pad", "batch")),
        record("pad", 19, None),
        record("top", 18, Stage.LOAD, "RuntimeFailedError: TheirError: no such operator"),
    ]
    path = Path("op_cases/expectations/theirs.toml")
    made = edit(SYMBOLS, path, records, {}, "https://example.org/issues")
    reason = "a size that is computed from a dynamic axis is not known while the model is loaded"
    assert made.changes == [
        f"add 'split[*': fails at load, {reason}",
        f"add 'pad-*', opset = <=18: fails at load, {reason}",
        "add 'top-*': fails at load",
    ]
    assert made.text.startswith(SYMBOLS.replace('"put-*"', '[\n    "put-*",\n    "split[*",\n]'))
    of_pad = next(each for each in parse(made.text, path) if each.cells == "pad-*")
    assert (of_pad.opset, of_pad.error, of_pad.reason) == ("<=18", "*Undetermined symbol*", reason)
    assert of_pad.link == "https://example.org/issues/7"
    assert edit(made.text, path, records, {}, "https://example.org/issues").changes == []


@pytest.mark.parametrize("stage", [Stage.COMPARE, Stage.LOAD])
def test_wrong_results_and_crashes_that_look_like_a_known_one_are_still_to_be_explained(stage: Stage) -> None:
    """What they say does not tell why."""
    error = "output 0 at (0,): runtime 1, torch 2" if stage is Stage.COMPARE else "was killed by SIGABRT in stage load"
    known = SYMBOLS.replace("*Undetermined symbol*", "*").replace('"load"', f'"{stage}"')
    known = known.replace('error  = "*"', f"error  = {json.dumps(error)}")
    records = [record("put", 18, stage, error), record("pad", 18, stage, error)]
    _, added = of_runtime(known, records)
    assert (added.cells, added.reason) == ("pad-*", "")
