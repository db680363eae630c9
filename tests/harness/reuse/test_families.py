"""An export depends on the families of operators that it asks for rules, and on no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F

from onnx_parity.exporter.recording.fakes import result_cache
from onnx_parity.exporter.registry.rules import Asked, Aspect, noting
from onnx_parity.harness.axes import Shapes
from onnx_parity.harness.case import Declaration, floats, op
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Record
from onnx_parity.harness.reuse import families as module
from onnx_parity.harness.reuse.families import Families
from onnx_parity.harness.reuse.hashes import Grounds
from onnx_parity.harness.reuse.reuse import Reuse
from onnx_parity.harness.reuse.store import Store
from onnx_parity.harness.running.stages import Bench
from tests.harness.fakes import cell
from tests.records import RECORD


def _cell(name: str, declaration: Declaration, **axes: Any) -> Cell:
    return replace(cell(declaration, **axes), case=next(declaration.cases(name)))


_ELU = op(F.elu, floats(2, 3), dynamic={"x": {0: "batch"}})
_POOL = op(F.adaptive_avg_pool2d, floats(1, 2, 6, 6), output_size=(2, 3))
#: It has no lowering, and is refused.
_REFUSED = op(lambda x: torch.ops.aten.segment_reduce(x, "sum", lengths=torch.tensor([1, 2])), floats(3, 2))
_LOWERING = "exporter/operators/{}/lowering.py"


@pytest.fixture(autouse=True)
def _draw_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_parity.harness.reuse.reuse.SHARE", 1 << 62)


def _reuse(folder: Path, *edited: str) -> Reuse:
    grounds = Grounds(0)
    assert set(edited) <= set(grounds.code)
    vars(grounds)["code"] = {**grounds.code, **dict.fromkeys(edited, "edited")}
    return Reuse(Store(folder), grounds, "first", folder, 7.0)


def _ran(folder: Path, *cells: Cell) -> set[Asked]:
    """Run cells, one after the other in one process, and keep their outcomes. The rules that the last has asked for."""
    reuse = _reuse(folder)
    bench = Bench(0, reuse=reuse)
    for it in cells:
        outcome = bench.run(it)
        record = outcome.onto(
            msgspec.structs.replace(RECORD, cell=it.id, began=time.time(), line=it.case.declaration.line)
        )
        assert reuse.settle(outcome, record, (), partial(_not_run_again, record)) == ""
    reuse.flush()
    return outcome.asked


def _not_run_again(record: Record) -> Record:
    return record


def _is_known(folder: Path, it: Cell, *edited: str) -> bool:
    return _reuse(folder, *edited).before_export(it) is not None


@pytest.mark.parametrize("shapes", [pytest.param(Shapes.STATIC, marks=pytest.mark.slow), Shapes.DYNAMIC])
def test_a_change_of_a_family_concerns_the_cells_that_ask_for_it(tmp_path: Path, shapes: Shapes) -> None:
    elu, pool = _cell("elu", _ELU, shapes=shapes), _cell("pool", _POOL)
    _ran(tmp_path, elu, pool)
    assert _is_known(tmp_path, elu)
    assert _is_known(tmp_path, pool)
    assert not _is_known(tmp_path, elu, _LOWERING.format("activation"))
    assert _is_known(tmp_path, pool, _LOWERING.format("activation"))
    assert not _is_known(tmp_path, pool, "exporter/operators/pooling/adaptive_pooling.py")
    assert _is_known(tmp_path, elu, "exporter/operators/pooling/adaptive_pooling.py")


def test_what_a_file_of_a_family_imports_counts_with_it(tmp_path: Path) -> None:
    """Adaptive pooling uses the lowerings of other pooling, and those use a file of convolutions."""
    _ran(tmp_path, _cell("pool", _POOL))
    assert not _is_known(tmp_path, _cell("pool", _POOL), _LOWERING.format("pooling"))
    assert not _is_known(tmp_path, _cell("pool", _POOL), "exporter/operators/convolution/convolution_as_matmul.py")


@pytest.mark.parametrize(
    "file",
    [
        "exporter/rewrites/tables/pads.py",
        "exporter/patches/nested_tensors.py",
        "exporter/operators/__init__.py",
        "exporter/lowering/schema/signatures.json",
    ],
)
def test_all_that_is_of_no_family_concerns_every_cell(tmp_path: Path, file: str) -> None:
    _ran(tmp_path, _cell("elu", _ELU))
    assert not _is_known(tmp_path, _cell("elu", _ELU), file)


def _with_index(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    read = Path.read_text

    def changed(self: Path, *args: Any, **kwargs: Any) -> str:
        text = read(self, *args, **kwargs)
        return change(text) if self.name == "index.txt" else text

    monkeypatch.setattr(Path, "read_text", changed)


def test_a_rule_that_is_added_concerns_the_cells_that_looked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _ran(tmp_path, _cell("elu", _ELU), _cell("refused", _REFUSED))
    assert (Aspect.LOWERING, "aten::segment_reduce") in asked
    assert (Aspect.DECOMPOSITION, "aten::segment_reduce") in asked
    assert _is_known(tmp_path, _cell("refused", _REFUSED))
    added = "operators.loss.lowering LOWERING aten::segment_reduce\n"
    _with_index(monkeypatch, lambda text: text + added)
    assert not _is_known(tmp_path, _cell("refused", _REFUSED))
    assert _is_known(tmp_path, _cell("elu", _ELU))


def test_an_operator_that_is_replaced_from_now_on_concerns_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators that write in place are replaced before a recording sees them."""
    _ran(tmp_path, _cell("elu", _ELU))
    _with_index(monkeypatch, lambda text: f"{text}operators.loss.recorded INSTEAD aten::sort\n")
    assert not _is_known(tmp_path, _cell("elu", _ELU))


@pytest.mark.slow
def test_cells_that_share_a_capture_or_a_model_or_a_remembered_result_have_asked_for_the_same(tmp_path: Path) -> None:
    first = _ran(tmp_path, _cell("elu", _ELU, opset=9))
    assert (Aspect.RESULT, "aten::elu") in first
    assert _ran(tmp_path, _cell("elu", _ELU, opset=9)) == first
    others = _cell("elu", _ELU, opset=9), _cell("elu", _ELU, opset=9, runtime="onnx.reference")
    assert _ran(tmp_path, *others) == first
    assert _ran(tmp_path, _cell("elu", _ELU, opset=9), _cell("elu", _ELU, opset=18)) == _ran(
        tmp_path, _cell("elu", _ELU, opset=18)
    )
    result_cache._static_results.clear()
    assert _ran(tmp_path, _cell("elu", _ELU, opset=9)) == first


def test_what_is_asked_for_within_is_noted_outside_too() -> None:
    from onnx_parity.exporter.registry.rules import load

    with noting() as outer:
        with noting() as inner:
            load(Aspect.LOWERING, "aten::elu")
        load(Aspect.RESULT, "aten::elu")
    assert inner == {(Aspect.LOWERING, "aten::elu")}
    assert outer == {*inner, (Aspect.RESULT, "aten::elu")}


def test_a_file_of_a_family_that_another_file_imports_counts_for_all(tmp_path: Path, monkeypatch: Any) -> None:
    file, own = tmp_path / "exporter" / "tracing.py", tmp_path / "exporter" / "operators" / "shape" / "rows.py"
    (tmp_path / "exporter" / "registry").mkdir(parents=True)
    (tmp_path / "exporter" / "registry" / "index.txt").write_text("operators.shape.rows LOWERING aten::t aten::mT\n")
    own.parent.mkdir(parents=True)
    own.write_text("")
    file.write_text("")
    monkeypatch.setattr(module, "room_folder", lambda package: tmp_path / package)
    code = {"exporter/tracing.py": "a", "exporter/operators/shape/rows.py": "b"}
    edited = {**code, "exporter/operators/shape/rows.py": "c"}
    assert set(Families(code).beside) == {"exporter/tracing.py", "names"}
    assert Families(code).state_of(["LOWERING aten::t"]) != Families(edited).state_of(["LOWERING aten::t"])
    assert Families(code).state_of(["LOWERING"]) != Families(edited).state_of(["LOWERING"])
    assert Families(code).state_of(["LOWERING aten::u"]) == Families(edited).state_of(["LOWERING aten::u"])
    file.write_text("def later():\n    from onnx_parity.exporter.operators.shape import rows\n")
    assert set(Families(code).beside) == {*code, "names"}
