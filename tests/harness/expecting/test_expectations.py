"""Expectations: the cells that a selector matches, and the status of their records."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from onnx_parity.harness.expecting.expectations import (
    Expectation,
    ExpectationError,
    apply_expectations,
    load,
    parse,
    parse_entries,
)
from onnx_parity.harness.record import Record, Stage, Status
from tests.harness.faults import LEAN, run_project
from tests.records import METRICS, RECORD
from tests.thinned import one_in

TOPK = "topk[k=0]-float32-opset{}-cpu-trace-onnxruntime"


def known(cells: str, stage: Stage = Stage.LOAD) -> Expectation:
    return Expectation(cells, stage, "no kernel for k=0", "https://example.org/1")


def opsets(selector: str) -> list[int]:
    return [opset for opset in range(7, 29) if known(selector).matches(TOPK.format(opset))]


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ("topk[k=0]-*-opset<10-*", [7, 8, 9]),
        ("topk[k=0]-*-opset<=10-*", [7, 8, 9, 10]),
        ("topk[k=0]-*-opset>26-*", [27, 28]),
        ("topk[k=0]-*-opset>=26-cpu-trace-onnxruntime", [26, 27, 28]),
        ("topk[k=0]-*-opset9-12-*", [9, 10, 11, 12]),
        ("topk[k=0]-*-opset9-*", [9]),
        ("topk[k=?]-*-opset8-*", [8]),
        ("topk*", list(range(7, 29))),
        ("topk", []),
        ("topk[k=0]-*-opset<7-*", []),
        ("top[k]*", []),
        ("topk[k=0]-*-opset1*", list(range(10, 20))),
    ],
)
def test_selectors(selector: str, taken: list[int]) -> None:
    assert opsets(selector) == taken


def record(status: Status, stage: Stage, reason: str = "") -> Record:
    return replace(RECORD, status=status, stage=stage, reason=reason)


def test_a_failure_at_the_expected_stage_is_known() -> None:
    for status in (Status.FAILED, Status.CRASHED):
        applied = known("*").apply(record(status, Stage.LOAD, "NOT_IMPLEMENTED"))
        assert (applied.status, applied.reason, applied.link, applied.error) == (
            Status.KNOWN, "no kernel for k=0", "https://example.org/1", "NOT_IMPLEMENTED"
        )  # fmt: skip


def test_a_failure_at_another_stage_is_a_failure() -> None:
    applied = known("*").apply(record(Status.FAILED, Stage.COMPARE, "off by one"))
    assert applied.status is Status.FAILED
    assert applied.reason == "expected to fail at load (no kernel for k=0), failed at compare: off by one"


def test_a_pass_is_unexpected() -> None:
    applied = known("topk*").apply(record(Status.PASSED, Stage.RERUN_VALUES))
    assert applied.status is Status.UNEXPECTED_PASS
    assert applied.reason == ("expected to fail at load: no kernel for k=0. It passes now: narrow or remove 'topk*'")


def test_a_failure_in_other_words_is_a_failure() -> None:
    applied = replace(known("*"), error="*NO [KERNEL]*").apply(record(Status.FAILED, Stage.LOAD, "broken"))
    assert applied.status is Status.FAILED
    reason = (
        "expected to fail at load (no kernel for k=0), failed at load with another error than '*NO [KERNEL]*': broken"
    )
    assert (applied.reason, applied.error) == (reason, "broken")
    foreseen = record(Status.FAILED, Stage.LOAD, "1: NO [KERNEL]\nfor it")
    assert replace(known("*"), error="*NO [KERNEL]*").apply(foreseen).status is Status.KNOWN


@pytest.mark.parametrize(
    ("keys", "matches"),
    [
        ({"opset": "<10"}, True),
        ({"opset": "7,13-18"}, False),
        ({"dtype": "float32"}, True),
        ({"dtype": ("float16", "int8")}, False),
        (
            {"device": "cpu", "capture": "trace", "exporter": "parity", "runtime": "onnxruntime", "shapes": "static"},
            True,
        ),
        ({"exporter": "torch_dynamo"}, False),
        ({"runtime": "onnx.reference"}, False),
        ({"shapes": "dynamic"}, False),
    ],
)
def test_axes_narrow_a_selector(keys: dict[str, str], matches: bool) -> None:
    assert replace(known("*"), **keys).matches("pad[to=-0.2-x]-float32-opset9-cpu-trace-onnxruntime") is matches


def test_the_axes_of_a_cell_of_a_peer_are_read_from_its_id() -> None:
    cell = "pad-int8-opset13-cuda-script-onnxruntime:basic-torch_dynamo-dynamic"
    keys = {"exporter": "torch_dynamo", "runtime": "onnxruntime:basic", "shapes": "dynamic", "device": "cuda"}
    assert replace(known("*"), **keys).matches(cell)
    assert replace(known("*"), shapes="dynamic", exporter="parity").matches(cell.replace("-torch_dynamo", ""))


@pytest.mark.parametrize(
    ("packages", "applies"),
    [
        ({}, True),
        ({"torch": ">=2.13"}, True),
        ({"torch": "<2.13"}, False),
        ({"torch": "==2.13.0", "onnx": ">1"}, False),
    ],
)
def test_packages_restrict_an_expectation_to_an_environment(packages: dict[str, str], applies: bool) -> None:
    assert replace(known("*"), packages=packages).applies({"torch": "2.13.0+cpu"}) is applies


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.ABSENT])
def test_other_endings_are_left_alone(status: Status) -> None:
    assert known("*").apply(record(status, Stage.LOAD)) == record(status, Stage.LOAD)


def test_the_file_beside_the_declarations_is_read(tmp_path: Path) -> None:
    assert load(tmp_path / "expectations.toml") == ()
    (tmp_path / "expectations.toml").write_text(
        '[[known]]\ncells = "elu*"\nstage = "check"\nreason = "first"\nlink = "a"\n'
        '[[known]]\ncells = "*"\nstage = "check"\nreason = "second"\nlink = "b"\n'
    )
    load.cache_clear()
    failed = record(Status.FAILED, Stage.CHECK)
    assert apply_expectations(failed, tmp_path).reason == "first"
    assert apply_expectations(replace(failed, cell="relu"), tmp_path).reason == "second"


_WHAT_A_KNOWN_HAS = (
    ". A [[known]] has cells (a selector or a list of them), stage (one of build, reference, export, check, transform, "
)


def entry(cells: str = '"a"', stage: str = "load", more: str = "") -> str:
    return f'[[known]]\ncells = {cells}\nstage = "{stage}"\nreason = "b"\nlink = "c"\n{more}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            entry() + entry(stage="lode"),
            f"[[known]] number 2: Invalid enum value 'lode' - at `$.stage`{_WHAT_A_KNOWN_HAS}",
        ),
        (
            '[[known]]\ncells = "a"\nreason = "b"\nlink = "c"',
            f"[[known]] number 1: Object missing required field `stage`{_WHAT_A_KNOWN_HAS}",
        ),
        (
            '[[known]]\nstage = "load"\nreason = "b"\nlink = "c"',
            f"[[known]] number 1: Object missing required field `cells`{_WHAT_A_KNOWN_HAS}",
        ),
        (
            entry(more='opsets = "9"'),
            f"[[known]] number 1: Object contains unknown field `opsets`{_WHAT_A_KNOWN_HAS}",
        ),
        (
            entry(more='opset = "<7"'),
            "[[known]] number 1, 'a', has opset = '<7'. Write '<10', '>=13', '9' or '7-9,13', of 7 to 28.",
        ),
        (
            entry(more='packages = { torch = "2.1" }'),
            "[[known]] number 1, 'a', has packages that are not in pip's notation: Invalid specifier: '2.1'",
        ),
        (entry("[]"), "[[known]] number 1: cells is an empty list. Write a selector, or remove the entry."),
        (entry('["a", "b", "a"]'), "[[known]] number 1: cells names 'a' twice. Remove one of the two."),
        (
            entry('["a", 1]'),
            f"[[known]] number 1: Expected `str`, got `int` - at `$.cells`{_WHAT_A_KNOWN_HAS}",
        ),
        ('[known]\ncells = "a"', "write [[known]] with two brackets before each known failure"),
        ("[[known", "Expected ']]' at the end of an array declaration"),
    ],
)
def test_a_file_with_a_mistake_names_the_entry_and_the_mistake(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(text)
    with pytest.raises(ExpectationError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_an_entry_without_a_reason_stops_only_what_it_speaks_of(tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(entry() + '[[known]]\ncells = "topk*"\nstage = "load"\nlink = "c"\n')
    load.cache_clear()
    whole, half = load(path)
    assert (whole.lacks, half.lacks) == ("", "a reason")
    failed = replace(record(Status.FAILED, Stage.LOAD), cell="a", case="a")
    assert apply_expectations(failed, tmp_path).status is Status.KNOWN
    topk = replace(failed, cell="topk-float32-opset9-cpu-trace-onnxruntime", case="topk")
    assert apply_expectations(topk, tmp_path).status is Status.FAILED


def test_each_selector_of_a_list_is_an_expectation_of_its_own() -> None:
    alone = parse(entry('"elu*"', more='opset = "<10"') + entry('"relu-*"', more='opset = "<10"'), Path("x.toml"))
    together = parse(entry('["elu*", "relu-*"]', more='opset = "<10"'), Path("x.toml"))
    assert together == alone
    assert [each.cells for each in together] == ["elu*", "relu-*"]
    assert [len(each) for each in parse_entries(entry('["elu*", "relu-*"]') + entry(), Path("x.toml"))] == [2, 1]


def test_of_a_list_the_selector_that_matched_a_cell_which_passes_is_named(tmp_path: Path) -> None:
    (tmp_path / "expectations.toml").write_text(entry('["elu*", "topk*"]'))
    load.cache_clear()
    cell = "topk-float32-opset9-cpu-trace-onnxruntime"
    passed = replace(record(Status.PASSED, Stage.RERUN_VALUES), cell=cell, case="topk")
    applied = apply_expectations(passed, tmp_path)
    assert applied.status is Status.UNEXPECTED_PASS
    assert applied.reason == "expected to fail at load: b. It passes now: narrow or remove 'topk*'"


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_bytes("# für später\n".encode("latin-1"))
    with pytest.raises(ExpectationError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: the file is not encoded in UTF-8: 'utf-8' codec can't decode byte 0x")


def test_a_table_of_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text('[[knwon]]\ncells = "elu*"\n')
    with pytest.raises(ExpectationError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: it contains knwon, but may contain only [[known]]"


def _cases_of_elu(project: Path) -> Path:
    cases = project / "some_cases"
    cases.mkdir()
    (cases / "__init__.py").touch()
    (cases / "activation.py").write_text(
        "import torch.nn.functional as F\nfrom onnx_parity.harness.case import floats, op\n"
        "elu = op(F.elu, floats(2, 3))\n"
    )
    return cases


def test_a_selector_of_a_list_that_matches_no_cell_is_named(tmp_path: Path) -> None:
    cases = _cases_of_elu(tmp_path)
    absent = entry('"elq-*"', more='packages = { no-such-package = ">=1" }')
    (cases / "expectations.toml").write_text(entry('["elu-*-opset9-*", "elo-*"]') + absent)
    ended = run_project(tmp_path, "pytest", *LEAN, "-n", "0", "some_cases/expectations.toml")
    assert "1 failed, 2 passed" in ended.text
    told = "some_cases/expectations.toml: the expectation 'elo-*' matches no cell of some_cases/. "
    assert told in ended.text


@pytest.mark.parametrize("axis", one_in(3, ['runtime = "onnxruntine"', 'exporter = "praity"', 'device = "gpu"']))
def test_a_point_that_no_axis_has_matches_no_cell(axis: str, tmp_path: Path) -> None:
    cases = _cases_of_elu(tmp_path)
    (cases / "expectations.toml").write_text(entry('"elu-*"', more=axis))
    ended = run_project(tmp_path, "pytest", *LEAN, "-n", "0", "some_cases/expectations.toml")
    assert "1 failed" in ended.text
    assert "the expectation 'elu-*' matches no cell of some_cases/. " in ended.text


_KNOWN = '[[known]]\ncells = "elu*"\nstage = "compare"\nreason = "{}"\nlink = "a"\n'


def test_another_runtime_and_a_transformation_have_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations.toml").write_text(_KNOWN.format("the usual"))
    (tmp_path / "expectations" / "tract.toml").write_text(_KNOWN.format("tract's"))
    (tmp_path / "expectations" / "ort_all.toml").write_text(_KNOWN.format("the optimiser's"))
    load.cache_clear()
    failed = record(Status.FAILED, Stage.COMPARE)

    def reason(of: Record) -> str:
        return apply_expectations(of, tmp_path).reason

    assert reason(failed) == "the usual"
    assert reason(replace(failed, runtime="tract")) == "tract's"
    # Nothing is known of openvino, whatever is known of others.
    assert apply_expectations(replace(failed, runtime="openvino"), tmp_path).status is Status.FAILED
    transformed = replace(failed, transforms="ort:all")
    assert reason(transformed) == "the optimiser's"
    assert reason(replace(failed, transforms="onnxslim")) == "the usual"
    # What fails as it was exported may pass when it is transformed.
    passed = record(Status.PASSED, Stage.RERUN_VALUES)
    assert apply_expectations(replace(passed, transforms="onnxslim"), tmp_path).status is Status.PASSED
    assert apply_expectations(replace(passed, transforms="ort:all"), tmp_path).status is Status.UNEXPECTED_PASS
    load.cache_clear()


ROUNDED = replace(known("*", Stage.RERUN_SIZES), headroom=0.5)


@pytest.mark.parametrize("stage", [Stage.COMPARE, Stage.RERUN_SIZES, Stage.RERUN_VALUES])
def test_an_error_of_the_size_of_rounding_is_known_wherever_outputs_are_compared(stage: Stage) -> None:
    near = replace(record(Status.FAILED, stage, "error 2e-7"), metrics=replace(METRICS, headroom=0.6))
    assert ROUNDED.apply(near).status is Status.KNOWN
    passed = record(Status.PASSED, Stage.RERUN_VALUES)
    assert ROUNDED.apply(passed) == passed


def test_a_larger_error_than_that_of_rounding_is_a_failure() -> None:
    far = replace(record(Status.FAILED, Stage.COMPARE, "error 9e-7"), metrics=replace(METRICS, headroom=0.4))
    applied = ROUNDED.apply(far)
    assert applied.status is Status.FAILED and "with an error of more than 2 tolerances" in applied.reason
    for stage in (Stage.RUN, Stage.COMPARE):
        assert ROUNDED.apply(record(Status.FAILED, stage, "no kernel")).status is Status.FAILED
    assert replace(ROUNDED, error="*other*").apply(replace(far, metrics=METRICS)).status is Status.FAILED


@pytest.mark.parametrize(
    ("headroom", "stage"), [("0", "compare"), ("1.0", "compare"), ("-1", "compare"), ("0.5", "run")]
)
def test_a_headroom_is_a_part_of_a_tolerance(headroom: str, stage: str) -> None:
    text = f"[[known]]\ncells = '*'\nstage = '{stage}'\nheadroom = {headroom}\nreason = 'r'\nlink = 'l'\n"
    with pytest.raises(ExpectationError, match="Write a number above 0 and below 1"):
        parse(text, Path("expectations.toml"))
