"""`--since`: records that are carried over, cells that a change affects, and the sample that is run nevertheless."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from onnx_parity.harness.cases.installed import states
from onnx_parity.harness.cases.watching import PACKAGE
from onnx_parity.harness.matrix.since import SAMPLE, Since, since
from onnx_parity.harness.record import Record, RunInfo, Status
from onnx_parity.harness.results.content import contents, hash_declaration, imported_files
from onnx_parity.harness.results.environment import package_versions, platform_name
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import RecordWriter, create_run, read_info, read_records
from tests.forked import Ended
from tests.harness.faults import LEAN, run_project
from tests.records import INFO, RECORD

ELU = replace(RECORD, aten=("aten::elu",))
MATMUL = replace(RECORD, aten=("aten::bmm", "aten::add.Tensor"))
REFUSED = replace(RECORD, status=Status.UNSUPPORTED, aten=("aten::bmm",))
PEER = replace(RECORD, exporter="torch_dynamo", aten=("aten::elu",))
ALL = {"elu": ELU, "matmul": MATMUL, "refused": REFUSED, "peer": PEER}


def touched(*changed: str) -> set[str]:
    earlier = Since(INFO, {}, frozenset(changed))
    return {name for name, record in ALL.items() if earlier.touches(record)}


@pytest.mark.parametrize(
    ("changed", "cells"),
    [
        ([], set()),
        (["exporter/operators/activation/lowering.py"], {"elu", "refused"}),
        (["exporter/operators/linear_algebra/lowering.py"], {"matmul", "refused"}),
        (["exporter/operators/sorting/lowering.py"], {"refused"}),
        (["exporter/lowering/builder.py"], set(ALL)),
        (["exporter/dtypes.py"], set(ALL)),
        (["exporter/lowering/opsets/axes_input.py"], set(ALL)),
        (["exporter/tracing/trace.py"], set(ALL)),
        # What is recorded instead of an operator that the program calls: no record names that.
        (["exporter/operators/shape/recorded.py"], set(ALL)),
        (["harness/running/stages.py"], set(ALL)),
        (["exporter/operators/activation/lowering.py", "exporter/files/write.py"], set(ALL)),
    ],
)
def test_a_change_touches_what_runs_through_it(changed: list[str], cells: set[str]) -> None:
    assert {file for file in changed if file not in contents()} == set()
    assert touched(*changed) == cells


def test_a_name_that_is_put_together_is_an_operator_of_its_file() -> None:
    earlier = Since(INFO, {}, frozenset({"exporter/operators/special/polynomials.py"}))
    assert earlier.touches(replace(RECORD, aten=("aten::special_shifted_chebyshev_polynomial_v",)))


def test_commands_and_the_gate_run_no_cell() -> None:
    files = contents()
    assert "harness/running/stages.py" in files
    assert "exporter/operators/activation/lowering.py" in files
    assert not any(file.startswith(("harness/commands/", "harness/gate/")) for file in files)


_DECLARATIONS = """
from beside import thing
WIDE = 4
def _twice(x):
    return 2 * x
first = op(_twice, floats(2))
second = op(_twice, floats(WIDE))
_private = 1
"""


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (("floats(2)", "floats(3)"), {"first"}),
        (("floats(WIDE)", "floats(5)"), {"second"}),
        (("WIDE = 4", "WIDE = 5"), {"second"}),
        (("2 * x", "3 * x"), {"first", "second"}),
        (("_private = 1", "_private = 2"), {"first", "second"}),
        (("second =", "\n\nsecond ="), set()),
        (("second =", "third = op(_twice, floats(7))\nsecond ="), set()),
    ],
)
def test_a_declaration_is_its_own_source_and_what_it_sees(
    tmp_path: Path, change: tuple[str, str], changed: set[str]
) -> None:
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(_DECLARATIONS)
    after.write_text(_DECLARATIONS.replace(*change))
    names = ("first", "second")
    assert {name for name in names if hash_declaration(before, name) != hash_declaration(after, name)} == changed


def test_what_stands_beside_a_declaration_file_is_part_of_it(tmp_path: Path) -> None:
    hashes = set()
    for number, (beside, data) in enumerate([("1", "{}"), ("2", "{}"), ("2", "[]")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "cases.py").write_text(_DECLARATIONS)
        (folder / "beside.py").write_text(f"thing = {beside}")
        (folder / "cases.json").write_text(data)
        hashes.add(hash_declaration(folder / "cases.py", "first"))
    assert len(hashes) == 3


def test_what_a_declaration_imports_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the project, in other folders, in functions, and through others; not those of installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = tmp_path / "declared" / "cases.py"
    for path, text in {
        "declared/cases.py": (
            "import torch.utils\nfrom mine import nets\ndef build():\n    from mine.deep.blocks import block\n"
            "first = op(build)\n"
        ),
        "declared/utils.py": "other = 1\n",
        "mine/__init__.py": "",
        "mine/nets.py": "from . import layers\n",
        "mine/layers.py": "from .deep import *\n",
        "mine/deep/__init__.py": "",
        "mine/deep/blocks.py": "block = 1\n",
        "mine/unused.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    names = [path.relative_to(tmp_path).as_posix() for path in imported_files(cases)]
    assert names == [
        "mine/__init__.py",
        "mine/deep/__init__.py",
        "mine/deep/blocks.py",
        "mine/layers.py",
        "mine/nets.py",
    ]


def test_the_declarations_of_this_project_import_few_files_of_it() -> None:
    folder = Path(__file__).parents[3]
    files = {
        path.relative_to(folder).as_posix() for path in imported_files(folder / "op_cases" / "operator_database.py")
    }
    assert files == {"op_cases/__init__.py", "op_cases/opinfo.py"}


def test_nothing_is_carried_from_another_environment_or_an_old_run(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "old_runs" / "v1"
    assert since(old, 0).records == {}
    run = create_run(tmp_path, RunInfo("elsewhere", "", 0, "", packages={"torch": "1.0"}, contents=contents()))
    writer = RecordWriter(run, "main")
    writer.append(RECORD)
    writer.close()
    assert since(run, 0).records == {}
    with pytest.raises(RunStoreError, match=r"with --seed 0: its cells had other inputs\. Give that seed here\."):
        since(run, 1)


_CASES = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op
leaky = op(F.leaky_relu, floats(2, 3), negative_slope=[{slopes}])
relu = op(F.relu, floats(2, {size}))
odd = op(F.glu, floats(2, 3))
"""


@pytest.mark.slow
def test_a_run_since_another_runs_what_changed_and_a_sample(tmp_path: Path) -> None:
    slopes = ", ".join(f"0.{number}" for number in range(100, 180))

    def run(*options: str, size: int = 3) -> tuple[Ended, dict[str, Record]]:
        (tmp_path / "cases.py").write_text(_CASES.format(slopes=slopes, size=size))
        options = ("--opsets", "9", "--devices", "cpu", *options)
        ended = run_project(tmp_path, "pytest", *LEAN, "-n", "0", *options, "cases.py")
        return ended, {record.case: record for record in read_records(tmp_path / "runs" / "last")}

    def afresh(records: dict[str, Record]) -> set[str]:
        return {case for case, record in records.items() if not record.carried}

    _, first = run()
    assert len(afresh(first)) == 82
    first_run = read_info(tmp_path / "runs" / "last").id
    ended, second = run("--since", "runs/last")
    assert set(second) == set(first)
    sample = afresh(second) - {"odd"}
    # What failed is run again; of the rest one group in twenty.
    assert "odd" in afresh(second)
    assert 0 < len(sample) < 82 // SAMPLE * 4
    assert f"82 cells, {82 - len(afresh(second))} of them carried over: 1 failed, 81 passed" in ended.text
    assert {record.carried for record in second.values()} == {"", first_run}
    _, third = run("--since", "runs/last", size=5)
    assert "relu" in afresh(third)
    # Another sample; and what was carried over twice names the run in which it ran.
    assert afresh(third) - {"odd", "relu"} != sample
    twice = set(first) - afresh(second) - afresh(third)
    assert twice
    assert {third[case].carried for case in twice} == {first_run}


_IMPORTS = """
import importlib
import pathlib
import torch
from onnx_parity.harness.case import floats, op

def _scaled(x):
    factor = float((pathlib.Path(__file__).parent / "factor.txt").read_text())
    return importlib.import_module("my_nets").apply(x) * factor

scaled = op(_scaled, floats(2, 3))
relu = op(torch.relu, floats(2, 3))
"""


def test_a_module_or_data_that_a_program_uses_and_that_changed_is_run_again(tmp_path: Path) -> None:
    """Neither stands in the source in a way that a search for imports finds."""
    (tmp_path / "cases.py").write_text(_IMPORTS)
    (tmp_path / "my_nets.py").write_text("import my_base\ndef apply(x):\n    return x + my_base.ONE\n")
    (tmp_path / "my_base.py").write_text("ONE = 1\n")
    (tmp_path / "factor.txt").write_text("2")
    options = (*LEAN, "-n", "0", "--opsets", "9", "--devices", "cpu")

    def run_since() -> tuple[Ended, dict[str, Record]]:
        ended = run_project(tmp_path, "pytest", *options, "--since", "runs/last", "cases.py")
        return ended, {record.case: record for record in read_records(tmp_path / "runs" / "last")}

    run_project(tmp_path, "pytest", *options, "cases.py")
    first = read_records(tmp_path / "runs" / "last")
    named = {record.case: {each.partition(" ")[0] for each in record.depends} for record in first}
    # What a declaration reads, those of its file may read too.
    assert named["scaled"] == named["relu"] > {"factor.txt", "my_base.py", "my_nets.py"}
    (tmp_path / "my_nets.py").write_text("def apply(x):\n    raise ValueError('broken')\n")
    ended, records = run_since()
    assert records["scaled"].rerun == "my_nets.py changed"
    assert records["scaled"].status is not Status.PASSED
    assert not records["scaled"].carried
    assert "2 because my_nets.py changed" in ended.text
    assert ended.code == 1
    (tmp_path / "my_nets.py").write_text("def apply(x):\n    return x + 1\n")
    _, records = run_since()
    assert records["scaled"].rerun == "they did not pass"
    assert not any(each.startswith("my_base.py") for each in records["scaled"].depends)
    (tmp_path / "factor.txt").write_text("3")
    _, records = run_since()
    assert records["scaled"].rerun == "factor.txt changed"


def test_cells_depend_on_no_tests_beside_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import for_all\n")
    (tmp_path / "for_all.py").write_text("")
    (tmp_path / "cases.py").write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, op\n"
        "import for_both\nrelu = op(torch.relu, floats(2, 3))\n"
    )
    (tmp_path / "for_both.py").write_text("")
    (tmp_path / "for_tests.py").write_text("")
    (tmp_path / "test_it.py").write_text("import for_both, for_tests\ndef test_it():\n    assert for_tests\n")
    options = (*LEAN, "-n", "0", "--opsets", "9", "--devices", "cpu", "test_it.py", "cases.py")
    run_project(tmp_path, "pytest", *options)
    (record,) = read_records(tmp_path / "runs" / "last")
    names = {each.partition(" ")[0] for each in record.depends}
    assert names >= {"conftest.py", "for_all.py", "for_both.py"}
    assert names.isdisjoint({"test_it.py", "for_tests.py"})


@pytest.mark.parametrize(
    ("depends", "changed"),
    [
        ((), ""),
        ((f"{PACKAGE}timm",), "package timm"),
        ((f"{PACKAGE}einops",), ""),
        (("with space.py none",), ""),
        (("with space.py 0123456789abcdef",), "with space.py"),
    ],
)
def test_packages_and_files_of_a_record_are_compared(tmp_path: Path, depends: tuple[str, ...], changed: str) -> None:
    earlier = Since(INFO, {}, frozenset(), frozenset({"timm"}), tmp_path)
    assert earlier.find_changed(replace(RECORD, depends=depends)) == changed


def test_nothing_is_carried_from_a_run_with_other_packages_or_without_dependencies(tmp_path: Path) -> None:
    def unusable(**about: object) -> str:
        info = RunInfo("earlier", "", 0, "", packages=package_versions(), platform=platform_name(), contents=contents())
        run = create_run(tmp_path, replace(info, id=str(len(list(tmp_path.iterdir()))), **about))
        writer = RecordWriter(run, "main")
        writer.append(RECORD)
        writer.close()
        found = since(run, 0)
        assert bool(found.records) == (not found.unusable)
        return found.unusable

    assert unusable(distributions=states()) == ""
    assert unusable() == "the earlier run does not say what its cells depend on"
    assert unusable(distributions={**states(), "numpy": "1.0 0123"}) == "numpy changed"
    assert unusable(distributions={**states(), "einops": "1.0 0123"}) == ""
    assert unusable(platform="another") == "the versions of packages or the machine are others"
