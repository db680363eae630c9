"""`unsupported.toml`: how it is read, what it makes of a cell, and that it is written as a run found it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from onnx_parity.harness import cli
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.expecting import unsupported
from onnx_parity.harness.expecting.expectations import ExpectationError
from onnx_parity.harness.expecting.unsupported import judge_record, parse
from onnx_parity.harness.expecting.unsupported_edits import Group, Opsets, collect_known, write_text
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.store import read_records
from tests.records import RECORD, write_run

pytest_plugins = "pytester"
pytestmark = pytest.mark.usefixtures("imports_as_before")

_FILE = """
tier = "default"

["*"]
"<13" = ["bfloat16"]

[activation]
"<11" = ["elu", "celu[alpha=0.5] float64", "selu dynamic"]
"9,13" = ["gelu int8 static"]
"*" = ["mish", "tan[]"]
"""


def record(case: str, opset: int, dtype: str = "float32", shapes: str = "static", **changes: object) -> Record:
    name = case.partition("[")[0]
    axes = {"case": case, "name": name, "opset": opset, "dtype": dtype, "shapes": shapes}
    cell = f"{case}-{dtype}-opset{opset}-cpu-trace-onnxruntime{'-dynamic' if shapes == 'dynamic' else ''}"
    return msgspec.structs.replace(RECORD, cell=cell, **axes, **changes)


@pytest.mark.parametrize(
    ("cell", "refused"),
    [
        (record("elu[alpha=1.0]", 10), True),
        (record("elu", 10, "float64", "dynamic"), True),
        (record("elu", 11), False),
        (record("elu_", 10), False),
        (record("celu[alpha=0.5]", 7, "float64"), True),
        (record("celu[alpha=0.5]", 7, "float32"), False),
        (record("celu[alpha=1.0]", 7, "float64"), False),
        (record("selu", 7, shapes="dynamic"), True),
        (record("selu", 7), False),
        (record("gelu", 13, "int8"), True),
        (record("gelu", 12, "int8"), False),
        (record("mish", 28), True),
        (record("tan", 7), True),
        (record("tan[k=1]", 7), False),
        (record("tanh", 12, "bfloat16"), True),
        (record("tanh", 13, "bfloat16"), False),
    ],
)
def test_a_file_names_cells(cell: Record, refused: bool) -> None:
    assert parse(_FILE, Path("unsupported.toml")).agrees(cell, refused=refused)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "tier = None. Write the tier that it is complete for: smoke, default, full."),
        ("tier = 'all'", "tier = 'all'. Write the tier that it is complete for: smoke, default, full."),
        ("tier = 'full'\nelu = 3", "elu is neither tier nor a table of a file of declarations."),
        ("tier = 'full'\n[a]\n'<6' = ['b']", "[a] has '<6'. Write '<10', '>=13', '9', '7-9,13' or '*', of 7 to 28."),
        ("tier = 'full'\n[a]\n'<9' = 'b'", "[a] '<9' is no list of texts such as 'topk[k=0] int64'."),
        (
            "tier = 'full'\n[a]\n'<9' = ['b c']",
            "[a] '<9' has 'b c'. Write the name of a declaration or a case, and perhaps a dtype, static or dynamic.",
        ),
        ("tier = 'full'\n['*']\n'<9' = ['elu']", "[*] '<9' has 'elu'. Write a dtype, static or dynamic."),
        ("tier = 'full'\ntorch = 2", "torch = 2 is not in pip's notation, such as '==2.13.*'."),
        ("tier", "Expected '=' after a key in a key/value pair (at end of document)"),
    ],
)
def test_a_file_that_makes_no_sense_is_told(text: str, told: str) -> None:
    with pytest.raises(ExpectationError, match=f"^{re.escape(f'unsupported.toml: {told}')}$"):
        parse(text, Path("unsupported.toml"))


def test_without_a_file_a_refusal_fails_that_no_opset_lifts(tmp_path: Path) -> None:
    """A project's own operator that has no lowering would end green, at every opset."""
    own = record("mine", 9, status=Status.UNSUPPORTED, stage=Stage.EXPORT, reason="mine::op: there is no lowering")
    failed = judge_record(own, tmp_path, lambda tier: True)
    assert (failed.status, failed.blame, failed.refused, failed.error) == (
        Status.FAILED,
        Blame.EXPORTER,
        True,
        "mine::op: there is no lowering",
    )
    assert failed.reason == (
        "no opset can express it: mine::op: there is no lowering. Write a lowering for it with @onnx_parity.lowering, "
        "or list it as refused: `parity expect --update` writes unsupported.toml"
    )
    later = msgspec.structs.replace(own, reason="aten::gelu: ONNX has no Gelu (from opset 20)")
    elsewhere = msgspec.structs.replace(own, exporter="torch_script")
    for cell in (later, elsewhere, record("elu", 9)):
        assert judge_record(cell, tmp_path, lambda tier: True) is cell


def test_it_is_strict_in_both_directions(tmp_path: Path) -> None:
    (tmp_path / "unsupported.toml").write_text(_FILE)
    refusal = record("tanh", 9, status=Status.UNSUPPORTED, stage=Stage.EXPORT, reason="ONNX has no tanh")
    newly = judge_record(refusal, tmp_path, lambda tier: tier is Tier.DEFAULT)
    assert (newly.status, newly.blame, newly.refused, newly.error) == (
        Status.FAILED,
        Blame.EXPORTER,
        True,
        "ONNX has no tanh",
    )
    assert newly.reason == "it is refused, and unsupported.toml does not say so: ONNX has no tanh"
    passing = judge_record(record("elu", 9), tmp_path, lambda tier: True)
    assert (passing.status, passing.reason) == (
        Status.UNEXPECTED_PASS,
        "unsupported.toml says that it is refused, and it passes now: `parity expect --update` corrects the file",
    )
    as_it_says = record("elu", 9, status=Status.UNSUPPORTED)
    for cell in (as_it_says, record("tanh", 9), record("elu", 9, status=Status.FAILED)):
        assert judge_record(cell, tmp_path, lambda tier: True) is cell
    for others in (
        msgspec.structs.replace(refusal, exporter="torch_script"),
        msgspec.structs.replace(refusal, capture="script"),
        msgspec.structs.replace(refusal, case="tanh[drawn]"),
    ):
        assert judge_record(others, tmp_path, lambda tier: True) is others
    assert judge_record(refusal, tmp_path, lambda tier: False) is refusal


def test_another_torch_is_not_judged(tmp_path: Path) -> None:
    refusal = record("tanh", 9, status=Status.UNSUPPORTED)
    for number, (versions, status) in enumerate((("<2", Status.UNSUPPORTED), (">=2.11", Status.FAILED))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "unsupported.toml").write_text(f'torch = "{versions}"{_FILE}')
        assert judge_record(refusal, folder, lambda tier: True).status is status


def test_what_is_written_agrees_with_what_was_found() -> None:
    drawn = random.Random(7)
    for _ in range(60):
        groups = {}
        for name in ("a", "b", "c"):
            lowest = drawn.choice([7, 9, 13])
            for label in drawn.sample([f"{name}[k=1]", f"{name}[k=2]", name], 2):
                for dtype in drawn.sample(["float32", "float64", "bfloat16"], 2):
                    for shapes in ("static", "dynamic"):
                        since = lowest if drawn.random() < 0.8 else drawn.choice([7, 10, 29])
                        since = max(since, 13) if dtype == "bfloat16" else since
                        seen = drawn.sample(range(7, 29), 8)
                        refused = {opset for opset in seen if opset < since or drawn.random() < 0.02}
                        groups[Group("f", label, dtype, shapes)] = Opsets(refused, set(seen) - refused)
        file = parse(write_text(Tier.FULL, "", groups), Path("unsupported.toml"))
        for group, opsets in groups.items():
            for opset in opsets.refused | opsets.exported:
                told = file.holds(group.family, group.case, group.dtype, group.shapes, opset)
                assert told == (opset in opsets.refused), (group, opset)


def test_it_is_written_in_a_few_lines() -> None:
    def group(case: str, dtype: str, since: int, shapes: str = "static") -> tuple[Group, Opsets]:
        return Group("f", case, dtype, shapes), Opsets(set(range(7, since)), set(range(since, 29)))

    groups = dict(
        [
            *(group(f"a[k={k}]", dtype, 11) for k in range(5) for dtype in ("float32", "float64")),
            *(group(case, "bfloat16", 13) for case in ("a[k=1]", "b", "c")),
            *(group("b", "float32", since, shapes) for since, shapes in ((7, "static"), (10, "dynamic"))),
            *(group(f"c[k={k}]", "float32", 9 + k % 2) for k in range(3)),
            group("never", "float32", 29),
        ]
    )
    assert write_text(Tier.DEFAULT, "", groups).partition('tier = "default"\n')[2] == (
        '\n["*"]\n"<13" = ["bfloat16"]\n'
        '\n[f]\n"<9" = ["c"]\n"<10" = ["b dynamic", "c[k=1]"]\n"<11" = ["a"]\n"*" = ["never"]\n'
    )


def test_what_a_run_does_not_contain_stays_as_it_was() -> None:
    before = parse(_FILE, Path("unsupported.toml"))
    group = Group("activation", "elu", "float32", "static")
    now = collect_known([record("elu", 9)], before, [(group, 9), (group, 10), (group, 11)])
    assert now == {group: Opsets({10}, {9, 11})}


def test_what_a_run_does_not_contain_stays_as_it_was_written() -> None:
    """A run of fewer opsets than the file was made from would write other ranges."""
    text = '\n["*"]\n"<13" = ["bfloat16"]\n\n[f]\n"<11" = ["a", "c[k=1] dynamic"]\n'
    before = parse(f'tier = "default"\n{text}', Path("unsupported.toml"))
    groups = {
        Group("f", "a", "float32", "static"): Opsets({9}, {18}),
        Group("f", "b", "float32", "static"): Opsets({7, 8}, {9, 18}),
        Group("f", "c[k=1]", "float32", "dynamic"): Opsets({7}, {13}),
        **{Group("f", case, "bfloat16", "static"): Opsets({12}, {13}) for case in ("a", "b", "d")},
    }
    now = write_text(Tier.DEFAULT, "", groups, before, {("f", "b")})
    assert now.partition('tier = "default"\n')[2] == text.replace("[f]\n", '[f]\n"<9" = ["b"]\n')
    of_other_dtypes = {group: opsets for group, opsets in groups.items() if group.dtype != "bfloat16"}
    assert write_text(Tier.DEFAULT, "", of_other_dtypes, before, {("f", "b")}) == now
    exported = {**groups, Group("f", "a", "bfloat16", "static"): Opsets(set(), {12})}
    assert '"<13" = ["bfloat16"]' not in write_text(Tier.DEFAULT, "", exported, before, {("f", "b")})
    renamed = {group: opsets for group, opsets in groups.items() if group.case != "a" or group.dtype != "float32"}
    without = {group: opsets for group, opsets in renamed.items() if group.name != "c"}
    assert "c[k=1]" not in write_text(Tier.DEFAULT, "", without, before, {("f", "b")})


_CASES = """
import torch
from onnx_parity.harness.case import floats, op

elu = op(torch.nn.functional.elu, floats(2, 3), alpha=[1.0, 0.5])
tanh = op(torch.tanh, floats(2, 3))
"""


def test_the_file_is_written_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "activation.py").write_text(_CASES)
    (tmp_path / "pyproject.toml").write_text("[tool.parity]\ndeclarations = ['cases']\n")
    monkeypatch.chdir(tmp_path)

    def run(**refused_below: int) -> list[str]:
        found = [
            msgspec.structs.replace(
                record(case, opset, file="cases/activation.py"),
                status=Status.UNSUPPORTED if opset < refused_below[case.partition("[")[0]] else Status.PASSED,
                reason=f"ONNX has none (from opset {refused_below[case.partition('[')[0]]})",
            )
            for case in ("elu[alpha=1.0]", "elu[alpha=0.5]", "tanh")
            for opset in range(7, 27)
        ]
        write_run(Path("runs"), [judge_record(each, Path("cases"), lambda tier: True) for each in found])
        unsupported.load_once.cache_clear()
        told = [each for each in read_records(Path("runs/last")) if each.refused]
        result = CliRunner().invoke(cli.app, ["expect", "--update"])
        unsupported.load_once.cache_clear()
        return [str(result.exit_code), str(len(told)), Path("cases/unsupported.toml").read_text().partition("\n\n")[2]]

    assert run(elu=10, tanh=7) == ["0", "0", '[activation]\n"<10" = ["elu"]\n']
    assert run(elu=10, tanh=7) == ["0", "0", '[activation]\n"<10" = ["elu"]\n']
    assert run(elu=7, tanh=18) == ["0", "11", '[activation]\n"<12" = ["tanh"]\n']


_REFUSED = """
import torch
from onnx_parity.harness.case import floats, op

heard = op(torch.relu, floats(2, 3))
unheard = op(torch._standard_gamma_grad, floats(3, 3), floats(3, 3))
"""


def test_a_refusal_that_is_not_named_fails_pytest_and_so_does_a_name_without_a_case(pytester: pytest.Pytester) -> None:
    lean = ("-p", "onnx_parity", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--assert=plain")
    given = (*lean, "--in-process", "--opsets", "9", "--devices", "cpu", "cases.py", "unsupported.toml")
    pytester.makepyfile(cases=_REFUSED)
    file = pytester.path / "unsupported.toml"
    file.write_text('tier = "default"\n[cases]\n"<10" = ["heard", "gone float32"]\n')
    result = pytester.runpytest_inprocess(*given)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "unheard  float32  opset 9 * export ✗  exporter",
            "  it is refused, and unsupported.toml does not say so: *",
            "*/unsupported.toml: no case has this name: [[]cases[]] 'gone float32'. *",
            "2 cells: 1 failed, 1 unexpected pass; *",
        ],
        consecutive=False,
    )
    file.write_text('tier = "default"\n[cases]\n"<10" = ["unheard"]\n')
    unsupported.load_once.cache_clear()
    result = pytester.runpytest_inprocess(*given)
    result.stdout.fnmatch_lines(["2 cells: 1 unsupported, 1 passed; *"])
    assert result.ret == pytest.ExitCode.OK
