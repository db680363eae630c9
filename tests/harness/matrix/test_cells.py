"""Cells: their ids, and which of them a selection contains."""

from __future__ import annotations

import dataclasses
import tomllib
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from onnx_parity.harness.axes import (
    EVERY_OPSETS,
    SPREAD_OPSETS,
    TURNING_OPSETS,
    Capture,
    Device,
    Dtype,
    Selection,
    Shapes,
    Tier,
)
from onnx_parity.harness.case import Declaration, floats, image, model, numbers, op
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.results.content import room_folder

_ELU = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
#: The opsets of a declaration that is called `it`, in the default tier.
_TURN = zlib.crc32(b"it")
_EVERY = EVERY_OPSETS[_TURN % len(EVERY_OPSETS)]


def turning(turn: int) -> tuple[int, ...]:
    return TURNING_OPSETS[(_TURN + turn) % len(TURNING_OPSETS)]


def spread(turn: int) -> tuple[int, ...]:
    return SPREAD_OPSETS[(_TURN + turn) % len(SPREAD_OPSETS)]


def cells(declaration: Declaration, selection: Selection | None = None) -> list[Cell]:
    return list(cells_of("it", declaration, selection or Selection()))


def test_an_id_reads_from_the_case_to_the_runtime() -> None:
    case = next(_ELU.cases("elu"))
    plain = Cell(case, Dtype.FLOAT32, 9, Device.CPU, Capture.TRACE, "parity", "onnxruntime", Shapes.STATIC)
    assert plain.id == "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime"
    peer = Cell(case, Dtype.FLOAT16, 28, Device.CUDA, Capture.SCRIPT, "torch_dynamo", "onnx.reference", Shapes.DYNAMIC)
    assert peer.id == "elu[alpha=1.0]-float16-opset28-cuda-script-onnx.reference-torch_dynamo-dynamic"


def test_ids_are_unique_in_the_fullest_matrix() -> None:
    everything = Selection(
        tier=Tier.FULL,
        devices=tuple(Device),
        exporters=("parity", "torch_dynamo"),
        runtimes=("onnxruntime", "onnx.reference"),
    )
    ids = Counter(cell.id for cell in cells(op(F.elu, floats(2), alpha=[1, 2], dynamic={"x": {0: "n"}}), everything))
    assert set(ids.values()) == {1}
    declared = [cell for cell in ids if "[drawn]" not in cell]
    # 2 cases, 4 dtypes, 2 exporters, 2 shapes, 22 opsets; two runtimes on the CPU and one on CUDA.
    assert len(declared) == 2 * 4 * 2 * 2 * 22 * 3


def test_no_opset_begins_another() -> None:
    """`-k opset9` selects by substring: it must not select opset 90."""
    tokens = [f"opset{cell.opset}" for cell in cells(op(F.elu, floats(2)), Selection(tier=Tier.FULL))]
    assert [(a, b) for a in set(tokens) for b in set(tokens) if a != b and a in b] == []


def test_declarations_take_the_parts_of_all_opsets_in_turn() -> None:
    names = [f"it{number}" for number in range(16)]
    ran = {
        tuple(cell.opset for cell in cells_of(name, op(F.elu, floats(2)), Selection(devices=(Device.CPU,))))
        for name in names
    }
    assert ran == set(EVERY_OPSETS)
    assert set().union(*EVERY_OPSETS) == set(range(7, 27))


def test_the_default_tier_runs_some_opsets_of_an_operator_and_one_cuda_cell_a_case() -> None:
    found = cells(_ELU)
    opsets = Counter(cell.case.label for cell in found if cell.device is Device.CPU)
    assert opsets == {"it[alpha=1.0]": len(_EVERY), "it[alpha=0.5]": len(turning(1))}
    assert {cell.opset for cell in found} == {*_EVERY, *turning(1)}
    assert len([cell for cell in found if cell.device is Device.CUDA]) == 2
    on_cuda = {(cell.opset, cell.shapes) for cell in found if cell.device is Device.CUDA}
    assert on_cuda == {(max(opsets), Shapes.STATIC) for opsets in (_EVERY, turning(1))}


def test_models_run_at_a_spread_of_opsets_unless_they_are_small() -> None:
    def opsets(declaration: Declaration, tier: Tier) -> set[int]:
        return {cell.opset for cell in cells(declaration, Selection(tier=tier))}

    large, small = model(torch.nn.ReLU, image(8)), model(torch.nn.ReLU, image(8), tier="smoke")
    assert opsets(large, Tier.SMOKE) == set()
    assert opsets(large, Tier.DEFAULT) == set(spread(0))
    assert opsets(large, Tier.FULL) == set(range(7, 29))
    assert opsets(small, Tier.SMOKE) == {9, 18, 26}
    assert opsets(small, Tier.DEFAULT) == set(_EVERY)


def test_dynamic_cells_exist_where_axes_are_declared() -> None:
    assert {cell.shapes for cell in cells(_ELU)} == {Shapes.STATIC}
    dynamic = cells(op(F.elu, floats(2), dynamic={"x": {0: "n"}}))
    assert Counter(cell.shapes for cell in dynamic if cell.device is Device.CPU) == {
        Shapes.STATIC: len(_EVERY),
        Shapes.DYNAMIC: len(spread(1)),
    }


def test_cases_dtypes_and_shapes_take_the_opsets_in_turn() -> None:
    declaration = op(F.elu, floats(2), alpha=[1.0, 0.5], dtypes=[torch.float32, torch.float64], dynamic={"x": {0: "n"}})

    def opsets(selection: Selection, label: str, dtype: Dtype, shapes: Shapes) -> tuple[int, ...]:
        wanted = (label, dtype, Device.CPU, shapes)
        found = cells(declaration, selection)
        return tuple(cell.opset for cell in found if (cell.case.label, cell.dtype, cell.device, cell.shapes) == wanted)

    usual, one_dtype = Selection(), Selection(dtypes=(Dtype.FLOAT64,))
    assert opsets(usual, "it[alpha=1.0]", Dtype.FLOAT32, Shapes.DYNAMIC) == spread(1)
    assert opsets(usual, "it[alpha=1.0]", Dtype.FLOAT64, Shapes.DYNAMIC) == spread(2)
    assert opsets(usual, "it[alpha=0.5]", Dtype.FLOAT32, Shapes.DYNAMIC) == spread(2)
    # A dtype keeps its turn if it is asked for alone.
    for alpha in ("it[alpha=1.0]", "it[alpha=0.5]"):
        turn = opsets(usual, alpha, Dtype.FLOAT64, Shapes.DYNAMIC)
        assert opsets(one_dtype, alpha, Dtype.FLOAT64, Shapes.DYNAMIC) == turn


def test_dtypes_but_the_first_run_at_few_opsets_by_default() -> None:
    found = cells(op(F.elu, floats(2), dtypes=[torch.float32, torch.float64]))
    on_cpu = Counter(cell.dtype for cell in found if cell.device is Device.CPU)
    assert on_cpu == {Dtype.FLOAT32: len(_EVERY), Dtype.FLOAT64: len(spread(1))}
    assert [cell.dtype for cell in found if cell.device is Device.CUDA] == [Dtype.FLOAT32]


def test_bfloat16_beside_other_dtypes_runs_from_the_first_opset_on_that_has_it() -> None:
    declaration = op(F.elu, numbers(2), alpha=[1.0, 0.5], dtypes=[torch.float32, torch.bfloat16])
    ran = {cell.opset for cell in cells(declaration) if cell.dtype is Dtype.BFLOAT16}
    assert ran == {max(opset, 13) for turn in (3, 4) for opset in spread(turn)}
    asked = cells(declaration, Selection(opsets=(9,)))
    assert {cell.opset for cell in asked if cell.dtype is Dtype.BFLOAT16} == {9}


def test_dtypes_widen_with_the_tier() -> None:
    def dtypes(declaration: Declaration, **chosen: object) -> list[str]:
        selection = Selection(opsets=(18,), devices=(Device.CPU,), **chosen)  # type: ignore[arg-type]
        return [cell.dtype.value for cell in cells(declaration, selection) if "[drawn]" not in cell.id]

    real = op(F.elu, floats(2), dtypes=[torch.float32, torch.float64])
    whole = op(torch.add, numbers(2), numbers(2), dtypes=[torch.int64, torch.float32])
    assert dtypes(real, tier=Tier.SMOKE) == ["float32"]
    assert dtypes(real) == ["float32", "float64"]
    assert dtypes(real, tier=Tier.FULL) == ["float32", "float64", "float16", "bfloat16"]
    assert dtypes(whole, tier=Tier.FULL) == ["int64", "float32"]
    assert dtypes(real, dtypes=(Dtype.FLOAT16, Dtype.INT32)) == ["float16"]
    assert dtypes(whole, dtypes=(Dtype.FLOAT32,)) == ["float32"]


def test_models_run_in_dtypes_beyond_their_own_at_few_opsets() -> None:
    def opsets(**chosen: object) -> list[int]:
        selection = Selection(tier=Tier.FULL, devices=(Device.CPU,), **chosen)  # type: ignore[arg-type]
        network = model(torch.nn.Linear, floats(2, 3), in_features=3, out_features=2)
        return [cell.opset for cell in cells(network, selection) if cell.dtype is Dtype.FLOAT16]

    assert opsets() == [9, 18]
    assert opsets(opsets=(13, 18)) == [18]
    assert opsets(opsets=(13, 18), dtypes=(Dtype.FLOAT16,)) == [13, 18]


def test_cells_that_share_work_follow_each_other() -> None:
    found = cells(op(F.elu, floats(2), alpha=[1, 2], dynamic={"x": {0: "n"}}))
    runs = [(cell.case.label, cell.shapes) for cell in found]
    changes = sum(a != b for a, b in pairwise(runs))
    assert changes == 3


def test_a_file_names_the_cells_of_the_smoke_tier(tmp_path: Path) -> None:
    """What it names of a case is run instead of what the tier would run of it, unless an option asks for something."""
    elu = op(F.elu, floats(2), alpha=[1.0, 0.5], dtypes=[torch.float32, torch.float64])
    (tmp_path / "smoke.toml").write_text('[cases]\n"it[alpha=1.0]" = "float64-opset7 float32-opset13"\n')
    own, later = (dataclasses.replace(elu, file=tmp_path / "some.py", tier=tier) for tier in (Tier.SMOKE, Tier.DEFAULT))

    def points(declaration: Declaration, **chosen: object) -> set[str]:
        selection = Selection(devices=(Device.CPU,), **chosen)  # type: ignore[arg-type]
        return {cell.id.removesuffix("-cpu-trace-onnxruntime") for cell in cells(declaration, selection)}

    named = {"it[alpha=1.0]-float64-opset7", "it[alpha=1.0]-float32-opset13"}
    assert points(later, tier=Tier.SMOKE) == named
    assert points(own, tier=Tier.SMOKE) == named | {"it[alpha=0.5]-float32-opset18"}
    assert points(own, tier=Tier.SMOKE, opsets=(7, 18)) == {
        "it[alpha=1.0]-float64-opset7",
        *(f"it[alpha={alpha}]-float32-opset{opset}" for alpha in (1.0, 0.5) for opset in (7, 18)),
    }
    assert points(own, tier=Tier.SMOKE, opsets=(7, 18), dtypes=(Dtype.FLOAT64,)) == {
        f"it[alpha={alpha}]-float64-opset{opset}" for alpha in (1.0, 0.5) for opset in (7, 18)
    }
    assert points(own) == points(elu) | named
    assert points(later) > named
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "smoke.toml").write_text('[cases]\n"it[alpha=1.0]" = ""\n')
    without = dataclasses.replace(own, file=tmp_path / "other" / "some.py")
    assert points(without, tier=Tier.SMOKE) == {"it[alpha=0.5]-float32-opset18"}
    assert points(without) == points(elu)
    assert points(own, tier=Tier.FULL) == points(elu, tier=Tier.FULL)


def test_a_file_names_the_cells_that_the_default_tier_runs_of_costly_cases(tmp_path: Path) -> None:
    elu = op(F.elu, floats(2), alpha=[1.0, 0.5], dtypes=[torch.float32, torch.float64])
    own = dataclasses.replace(elu, file=tmp_path / "some.py")
    (tmp_path / "smoke.toml").write_text('[cases]\n"it[alpha=1.0]" = "float64-opset7"\n')
    (tmp_path / "costly.toml").write_text('[cases]\n"it[alpha=1.0]" = "float32-opset13"\n')

    def points(declaration: Declaration, **chosen: object) -> set[str]:
        selection = Selection(devices=(Device.CPU,), **chosen)  # type: ignore[arg-type]
        return {cell.id.removesuffix("-cpu-trace-onnxruntime") for cell in cells(declaration, selection)}

    kept = {"it[alpha=1.0]-float64-opset7", "it[alpha=1.0]-float32-opset13"}
    assert points(own) == kept | {each for each in points(elu) if each.startswith("it[alpha=0.5]")}
    assert points(own, costly=True) == points(elu) | {"it[alpha=1.0]-float64-opset7"}
    assert points(own, opsets=(9, 18)) == points(elu, opsets=(9, 18))
    assert points(own, tier=Tier.SMOKE) == {"it[alpha=1.0]-float64-opset7", "it[alpha=0.5]-float32-opset18"}
    assert points(own, tier=Tier.FULL) == points(elu, tier=Tier.FULL)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[cases]\nelu = 'float32'", "elu: float32 is not a dtype and an opset: write 'float32-opset18-dynamic'"),
        ("[cases]\nelu = 18", "elu: 18 is not a dtype and an opset"),
        ("cells = ['elu-float32-opset18']", r"only a table \[cases\] is known here"),
    ],
)
def test_what_is_no_cell_is_refused(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "smoke.toml").write_text(text)
    with pytest.raises(DeclarationError, match=error):
        named_cells.read_named(tmp_path / named_cells.SMOKE)


@pytest.mark.parametrize("file", [named_cells.SMOKE, named_cells.COSTLY])
def test_what_this_project_names_are_cells_of_its_default_tier(file: str) -> None:
    """Other lines would name nothing. `python -m benchmarks.mutants.smoke` and `.costly` write the files anew."""
    folder = room_folder("op_cases")
    default = {
        (cell.case.label, named_cells.point_of(cell.dtype, cell.opset, cell.shapes))
        for name, declaration in declared_under(folder)
        for cell in cells_of(name, declaration, Selection(devices=(Device.CPU,), costly=True))
    }
    cases = tomllib.loads((folder / file).read_text("utf-8"))["cases"]
    assert sorted({(label, point) for label, points in cases.items() for point in points.split()} - default) == []
    assert sorted(cases.keys() - {label for label, _ in default}) == []


def test_the_default_tier_of_this_project_runs_every_declaration() -> None:
    """Also those whose cases are costly: with static sizes, and with dynamic ones where they have any."""
    for name, declaration in declared_under(room_folder("op_cases")):
        every, few = (
            {cell.shapes for cell in cells_of(name, declaration, Selection(devices=(Device.CPU,), costly=costly))}
            for costly in (True, False)
        )
        assert few == every, name
