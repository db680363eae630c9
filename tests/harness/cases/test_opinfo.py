"""torch's OpInfo as a source of cases: which samples, under which ids, and how they are drawn."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from onnx_parity.harness.axes import AxisError, Device, Dtype, Selection, Tier, read_selection
from onnx_parity.harness.case import DeclarationError
from onnx_parity.harness.cases.opinfo_entries import (
    EXCLUDED,
    Usable,
    first_dtype,
    parse_positions,
    read_survey,
    spell_positions,
    spread,
    survey_path,
    write_survey,
)
from onnx_parity.harness.cases.opinfo_samples import (
    all_entries,
    all_modules,
    draw_samples,
    sample_at,
    usable_samples,
)
from onnx_parity.harness.cases.program import InputSet, build
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.matrix.named_cells import point_of
from onnx_parity.harness.opinfo import OpInfoDeclaration, SampleCase, entries
from onnx_parity.harness.record import Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.store import read_records
from onnx_parity.op_cases.module_database import module_database
from onnx_parity.op_cases.operator_database import operator_database
from onnx_parity.op_cases.opinfo import opinfo
from tests.forked import run
from tests.fresh import run_after_torch
from tests.harness.fakes import tensors
from tests.harness.pytest_run import run_pytest


def ids(declaration: OpInfoDeclaration, name: str, selection: Selection) -> list[str]:
    return [cell.id for cell in cells_of(name, declaration, selection)]


def sample_case(declaration: OpInfoDeclaration, position: int) -> SampleCase:
    """The case of one sample of the declaration's only entry."""
    cases = {case.position: case for case in declaration.cases("x") if isinstance(case, SampleCase)}
    return cases[position]


def test_default_tier_takes_four_samples_at_one_opset() -> None:
    cpu = Selection(devices=(Device.CPU,))
    assert [each for each in ids(opinfo, "opinfo", cpu) if each.startswith("opinfo.clamp[")] == [
        f"opinfo.clamp[sample={position}]-float32-opset18-cpu-trace-onnxruntime" for position in (0, 2, 4, 6)
    ]


def test_entry_without_floats_is_run_in_ints() -> None:
    ours = [each for each in ids(opinfo, "opinfo", Selection(devices=(Device.CPU,))) if "bitwise_and" in each]
    assert ours == [
        f"opinfo.bitwise_and[sample={position}]-int64-opset18-cpu-trace-onnxruntime" for position in (0, 3, 5, 8)
    ]


@pytest.mark.slow
def test_full_tier_holds_the_default_tier() -> None:
    default = set(ids(opinfo, "opinfo", Selection(devices=(Device.CPU,))))
    assert default < set(ids(opinfo, "opinfo", Selection(tier=Tier.FULL, devices=(Device.CPU,))))


@pytest.mark.slow
def test_full_tier_holds_entries_of_complex_numbers_alone() -> None:
    full, default = (
        {each for each in ids(operator_database, "operator_database", selection) if ".istft[" in each}
        for selection in (Selection(tier=Tier.FULL, devices=(Device.CPU,)), Selection(devices=(Device.CPU,)))
    )
    assert default
    assert default < full


def test_smoke_tier_takes_only_what_its_file_names() -> None:
    chosen = Selection(tier=Tier.SMOKE, devices=(Device.CPU,))
    found = {
        (cell.case.label, point_of(cell.dtype, cell.opset, cell.shapes)) for cell in cells_of("opinfo", opinfo, chosen)
    }
    named = tomllib.loads((opinfo.file.parent / "smoke.toml").read_text())["cases"]
    assert found == {
        (label, point) for label, points in named.items() if label.startswith("opinfo.") for point in points.split()
    }


def test_options_choose_opsets_and_dtypes() -> None:
    chosen = Selection(opsets=(9, 11), dtypes=(Dtype.INT32, Dtype.BOOL), devices=(Device.CPU,))
    cells = [cell for cell in cells_of("opinfo", opinfo, chosen) if cell.case.name == "opinfo.neg"]
    points = [(cell.dtype, cell.opset) for cell in cells]
    # neg takes no booleans.
    assert set(points) == {(Dtype.INT32, 9), (Dtype.INT32, 11)}


def test_the_number_of_samples_is_an_option() -> None:
    def samples(number: int | None, tier: Tier = Tier.DEFAULT) -> list[str]:
        chosen = Selection(tier=tier, opsets=(9,), devices=(Device.CPU,), samples=number)
        cells = [cell for cell in cells_of("opinfo", opinfo, chosen) if cell.dtype is Dtype.FLOAT32]
        return [cell.case.label for cell in cells if cell.case.name == "opinfo.clamp"]

    assert samples(1) == samples(1, Tier.FULL) == ["opinfo.clamp[sample=0]"]
    assert samples(2) == ["opinfo.clamp[sample=0]", "opinfo.clamp[sample=6]"]
    assert samples(0) == samples(None, Tier.FULL)
    assert len(samples(0)) > len(samples(None)) == 4
    assert read_selection({"samples": "3"}.get).samples == 3
    with pytest.raises(AxisError, match=r"^--samples few is not a number of samples\. Write 1 or more, or 0 for all"):
        read_selection({"samples": "few"}.get)


@pytest.mark.slow
def test_entries_run_through_the_plug_in_and_a_refused_sample_fails_unless_it_is_listed(tmp_path: Path) -> None:
    """As every other cell of the tier that `unsupported.toml` is complete for."""
    (tmp_path / "cases.py").write_text(
        "from onnx_parity.harness.opinfo import entries\nx = entries({'clamp': ('clamp_min',), 'tanh': ('tanh',)})\n"
    )
    (tmp_path / "unsupported.toml").write_text('tier = "default"\n[cases]\n">=18" = ["x.tanh"]\n')
    found = run_pytest(tmp_path, "cases.py", "-v", "--devices", "cpu")
    assert "cases.py::x::x.clamp_min[sample=0]-float32-opset18-cpu-trace-onnxruntime PASSED" in found.text
    ended: dict[str, list[Status]] = {}
    for record in read_records(found.folder):
        ended.setdefault(record.case.partition("[")[0], []).append(record.status)
    assert ended == {"x.clamp_min": [Status.PASSED] * 4, "x.tanh": [Status.UNEXPECTED_PASS] * len(ended["x.tanh"])}


def test_collection_does_not_import_op_db(tmp_path: Path) -> None:
    program = (
        "import sys; from onnx_parity.harness.matrix.cells import cells_of;"
        "from onnx_parity.harness.axes import Selection, Tier;"
        "from onnx_parity.op_cases.opinfo import opinfo;"
        "print(sum(1 for _ in cells_of('opinfo', opinfo, Selection(tier=Tier.FULL, opsets=(18,)))),"
        "'torch.testing._internal.common_methods_invocations' in sys.modules)"
    )
    found = run(tmp_path, "python", "-c", program).text.split()
    assert int(found[0]) > 30_000
    assert found[1] == "False"


def test_unknown_entry_is_named_with_what_was_meant() -> None:
    declaration = entries({"div": ("div",)})
    with pytest.raises(DeclarationError) as error:
        ids(declaration, "x", Selection())
    assert str(error.value) == (
        f"{declaration.place}: torch {torch.__version__} has no OpInfo entry 'div'; it has div.no_rounding_mode, "
        "div.trunc_rounding, div.floor_rounding. An entry's name is that of its operator, a dot and its variant, as "
        "in div.floor_rounding."
    )


def test_misspelt_entry_is_named_with_its_nearest() -> None:
    with pytest.raises(DeclarationError, match=r"has no OpInfo entry 'clampp'; it has clamp"):
        usable_samples("clampp")


def test_random_entry_is_refused_with_the_reason() -> None:
    with pytest.raises(DeclarationError) as error:
        entries({"rand": ("rand_like",)})
    assert str(error.value).endswith("entry 'rand_like' makes no cases: its outputs are random numbers. Leave it out.")


def test_entry_declared_twice_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"entry 'add' is declared 2 times\. Leave one\."):
        entries({"add": ("add",), "sum": ("add",)})


def test_excluded_entries_exist() -> None:
    """An exclusion of what torch does not have excludes nothing."""
    assert set(EXCLUDED) <= set(all_entries())


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["add", "clamp", "nn.functional.dropout", "bitwise_or", "split.list_args"])
def test_the_survey_agrees_with_torch(entry: str) -> None:
    """The samples of a survey are those of the torch that it names."""
    path = survey_path(opinfo.file)
    if f'"torch": "{torch.__version__}"' not in path.read_text():
        pytest.skip(f"{path.name} was written for another torch than {torch.__version__}")
    assert read_survey(path)[entry] == usable_samples(entry)


def test_every_declared_entry_is_surveyed_and_has_samples() -> None:
    surveyed = read_survey(survey_path(opinfo.file))
    assert set(surveyed) == set(opinfo.entry_names)
    assert [entry for entry, usable in surveyed.items() if first_dtype(usable) is None] == []


def test_the_databases_are_declared_whole() -> None:
    """Every entry of torch's databases is a case, is excluded with its reason, or has no sample that can be run."""
    surveyed = {*read_survey(survey_path(operator_database.file)), *read_survey(survey_path(module_database.file))}
    assert surveyed | set(EXCLUDED) == {*all_entries(), *all_modules()}
    assert not set(operator_database.entry_names) & set(opinfo.entry_names)
    usable = {entry for entry, found in read_survey(survey_path(operator_database.file)).items() if found}
    assert usable <= {*operator_database.entry_names, *opinfo.entry_names}


def test_default_tier_takes_one_sample_of_a_database() -> None:
    cells = ids(module_database, "module_database", Selection(devices=(Device.CPU,)))
    assert len(cells) == len(module_database.entry_names)
    assert "module_database.nn.GRU[sample=0]-float32-opset18-cpu-trace-onnxruntime" in cells
    whole = set(ids(module_database, "module_database", Selection(tier=Tier.FULL, devices=(Device.CPU,))))
    assert set(cells) < whole


def test_a_module_is_run_in_evaluation_with_the_weights_it_was_made_with() -> None:
    case = next(each for each in module_database.cases("x") if each.name == "x.nn.BatchNorm1d")
    program, again, other_seed = (build(case, Dtype.FLOAT64, Device.CPU, seed) for seed in (0, 0, 1))
    assert not any(module.training for module in program.module.modules())
    inputs = tuple(tensors(program.inputs(InputSet())))
    assert torch.equal(program.run(inputs)[0], again.run(inputs)[0])
    assert {weight.dtype for weight in program.module.parameters()} == {torch.float64}
    linear = next(each for each in module_database.cases("x") if each.name == "x.nn.Linear")
    weights = [dict(build(linear, Dtype.FLOAT32, Device.CPU, seed).module.named_parameters()) for seed in (0, 1)]
    assert not torch.equal(weights[0]["operator.weight"], weights[1]["operator.weight"])
    assert other_seed.input_names == program.input_names


def test_misspelt_module_is_named_with_its_nearest() -> None:
    with pytest.raises(DeclarationError, match=r"has no module 'nn.Linar' in its database; it has nn\.Linear"):
        usable_samples("nn.Linar")


def test_the_first_samples_are_those_of_all() -> None:
    every, first = draw_samples("clamp", Dtype.FLOAT32, 3), draw_samples("clamp", Dtype.FLOAT32, 3, 2)
    assert len(first) == 2 < len(every)
    assert all(map(torch.equal, first[1].tensors, every[1].tensors))


def test_samples_of_vectors_of_any_sign_are_unique() -> None:
    sample = draw_samples("linalg.eigh", Dtype.FLOAT32, 0)[0]
    result = sample.call(*sample.tensors)
    assert isinstance(result, tuple)
    assert bool((result[1] >= 0).all())


def test_random_samples_are_not_usable() -> None:
    """Dropout in training is random, in evaluation it is not."""
    samples = draw_samples("nn.functional.dropout", Dtype.FLOAT32, 0)
    usable = usable_samples("nn.functional.dropout", (Dtype.FLOAT32,))[Dtype.FLOAT32]
    assert len(usable) < len(samples)
    assert len(usable) > 0


def test_inputs_are_drawn_from_the_seed() -> None:
    case = sample_case(entries({"clamp": ("clamp",)}), 0)
    program, again, other_seed = (build(case, Dtype.FLOAT32, Device.CPU, seed) for seed in (0, 0, 1))
    example, other_values = tensors(program.inputs(InputSet())), tensors(program.inputs(InputSet(draw=1)))
    draw_samples.cache_clear()
    assert all(map(torch.equal, example, tensors(again.inputs(InputSet()))))
    assert [tensor.shape for tensor in example] == [tensor.shape for tensor in other_values]
    assert not torch.equal(example[0], other_values[0])
    assert not torch.equal(example[0], tensors(other_seed.inputs(InputSet()))[0])


def test_lists_of_tensors_become_inputs() -> None:
    program = build(sample_case(entries({"cat": ("cat",)}), 0), Dtype.FLOAT32, Device.CPU, 0)
    inputs = tuple(tensors(program.inputs(InputSet())))
    assert program.input_names == tuple(f"x{index}" for index in range(len(inputs)))
    assert len(inputs) > 1
    assert torch.equal(program.run(inputs)[0], torch.cat(inputs, dim=1))


def test_drawing_leaves_torch_as_it_was() -> None:
    state = torch.random.get_rng_state()
    before = torch.backends.cudnn.benchmark
    draw_samples("add", Dtype.FLOAT32, 7)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.backends.cudnn.benchmark = not before  # torch's test code forbids this.
    torch.backends.cudnn.benchmark = before
    assert torch._C.ScriptFunction.__call__.__name__ != "prof_func_call"


def test_position_that_torch_does_not_have_is_an_outcome() -> None:
    declaration = entries({"tanh": ("tanh",)})
    case = SampleCase(declaration, "x.tanh", "x.tanh[sample=9]", {}, "tanh", 9)
    cell = next(
        cell for cell in cells_of("x", declaration, Selection(devices=(Device.CPU,))) if cell.dtype is Dtype.FLOAT32
    )
    outcome = Bench(0).run(
        type(cell)(case, *(getattr(cell, each) for each in cell.__dataclass_fields__ if each != "case"))
    )
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.BUILD)
    assert "tanh has no sample of float32 at 9 in torch" in outcome.reason


@pytest.mark.slow
def test_samples_that_only_another_torch_has_are_absent(tmp_path: Path) -> None:
    """The survey says of which torch they are."""
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases.py\n")
    (tmp_path / "cases.py").write_text(
        "from onnx_parity.harness.opinfo import entries\nx = entries({'tanh': ('tanh',), 'newer': ('newer',)})\n"
    )
    usable: dict[str, Usable] = {"tanh": {Dtype.FLOAT32: (0, 99)}, "newer": {Dtype.FLOAT32: (0,)}}
    write_survey(tmp_path / "cases.json", "2.99.0+cpu", usable)
    found = run_pytest(tmp_path, "--devices", "cpu")
    assert {(record.case, record.status) for record in read_records(found.folder)} == {
        ("x.tanh[sample=0]", Status.PASSED),
        ("x.tanh[sample=99]", Status.ABSENT),
        ("x.newer[sample=0]", Status.ABSENT),
    }
    assert f"torch {torch.__version__} has no newer; torch 2.99.0 has it" in found.text
    write_survey(tmp_path / "cases.json", str(torch.__version__), usable)
    assert run_pytest(tmp_path, "--devices", "cpu").code == 1


def test_survey_reads_back_as_it_was_written(tmp_path: Path) -> None:
    usable: dict[str, Usable] = {
        "add": {Dtype.FLOAT32: (0, 1, 2, 5), Dtype.BOOL: (3,)},
        "nn.functional.elu": {Dtype.FLOAT64: (0, 2, 4)},
    }
    path = tmp_path / "survey.json"
    write_survey(path, "2.13.0", usable)
    assert read_survey(path) == usable
    assert path.read_text() == (
        '{"torch": "2.13.0", "entries": {\n'
        '  "add": {"float32": "0-2,5", "bool": "3"},\n'
        '  "nn.functional.elu": {"float64": "0,2,4"}\n'
        "}}\n"
    )


@pytest.mark.parametrize(
    ("text", "positions"), [("", ()), ("4", (4,)), ("0-1", (0, 1)), ("0-3,7,9-10", (0, 1, 2, 3, 7, 9, 10))]
)
def test_positions_are_spelled_in_ranges(text: str, positions: tuple[int, ...]) -> None:
    assert spell_positions(positions) == text
    assert parse_positions(text) == positions


@pytest.mark.parametrize(
    ("positions", "few"),
    [((), ()), ((2, 5), (2, 5)), (tuple(range(10)), (0, 3, 6, 9)), ((0, 1, 2, 3, 40), (0, 1, 3, 40))],
)
def test_few_are_spread_evenly(positions: tuple[int, ...], few: tuple[int, ...]) -> None:
    assert spread(positions, 4) == few


def test_one_of_many_is_the_first() -> None:
    assert spread((3, 5, 8), 1) == (3,)


def test_a_sample_that_is_not_drawn_with_every_seed_is_that_of_the_survey() -> None:
    fewest = min(len(draw_samples("masked.std", Dtype.FLOAT32, seed)) for seed in range(2, 8))
    survey = draw_samples("masked.std", Dtype.FLOAT32, 0)
    short = next(seed for seed in range(2, 8) if len(draw_samples("masked.std", Dtype.FLOAT32, seed)) == fewest)
    assert fewest < len(survey)
    found = sample_at("masked.std", Dtype.FLOAT32, len(survey) - 1, short)
    assert found is not None
    assert found.is_same_call(survey[-1])
    assert sample_at("masked.std", Dtype.FLOAT32, 10_000, short) is None


def test_torchs_databases_are_imported_without_its_compiler() -> None:
    code = """
import sys

from onnx_parity.harness.cases.opinfo_samples import all_entries, all_modules

assert all_entries() and all_modules()
assert "torch._dynamo" not in sys.modules

from torch._inductor.utils import GPU_TYPES
from torch.testing._internal import common_device_type

assert common_device_type.GPU_TYPES == GPU_TYPES
"""
    ended = run_after_torch(code)
    assert ended.returncode == 0, ended.stderr
