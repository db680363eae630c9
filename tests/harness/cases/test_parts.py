"""The programs of declared cases as parts of generated programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from onnx_parity.harness.axes import Capture
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.inputs import Floats
from onnx_parity.harness.search.catalogue import Catalogue, Hand
from onnx_parity.harness.search.generated import GeneratedProgram, Input, Line
from onnx_parity.harness.search.generating import draw, quietly
from onnx_parity.harness.search.looking import Ending, look
from onnx_parity.harness.search.parts import Part, declared, parts_of
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Fault, Point
from onnx_parity.harness.search.scripts import script
from tests.forked import run

AT = Point("onnxruntime", opset=18)
_CASES = """
import torch
from onnx_parity.harness.case import floats, op, scripted

def _halved(x: torch.Tensor, often: int) -> torch.Tensor:
    for _ in range(often):
        x = x / 2
    return x

layer = op(torch.nn.Linear, floats(2, 3), in_features=3, out_features=[2, 4], dynamic={"x": {0: "batch"}})
halved = op(scripted(_halved), floats(2, 3), often=2)
trained = op(torch.nn.BatchNorm1d, floats(2, 3), num_features=3, train=True)
"""


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cases") / "cases_of_parts.py"
    file.write_text(_CASES)
    return file


def test_the_programs_of_declared_cases_are_parts_of_programs(cases: Path) -> None:
    known = Catalogue([cases], {})
    programs = [draw(seed, known.hand(0, seed)).program for seed in range(8)]
    drawn = {part.name for each in programs for part in each.parts.values()}
    assert drawn == {"layer_out_features_2", "layer_out_features_4", "halved"}
    assert all(f"self.{name}(" in each.source for each in programs for name in each.parts)
    assert any(program.dynamic_axes for program in programs)
    for program in programs:
        subject = ProbedProgram(program)
        with quietly():
            assert look(subject, AT).ending is Ending.RIGHT
            assert look(subject, Point(Capture.SCRIPT, opset=18)).ending is not Ending.FAILED
        subject.release()


def test_a_part_is_left_out_with_its_line_and_made_by_a_script(cases: Path, tmp_path: Path) -> None:
    ((name, declaration), *_) = declared_under(cases)
    part = next(parts_of(name, declaration, ()))
    lines = (
        Line("v0 = self.layer_out_features_2(x0)", ("v0",), ("x0",), "layer"),
        Line("v1 = x0.sin()", ("v1",), ("x0",), "unary"),
    )
    x = Input("x0", Floats((2, 3), dtype=torch.float32), {})
    program = GeneratedProgram((x,), lines, ("v0", "v1"), parts={part.name: part})
    assert not program.with_lines(lines[1:]).parts
    assert [tuple(tensor.shape) for _, tensor in program.bound(program.values())] == [(2, 3), (2, 2), (2, 3)]
    failure = Failure("parity", Fault.ERROR, "an error")
    text = script(ProbedProgram(program), AT, failure, "a title")
    assert f"program.layer_out_features_2 = declared({str(cases)!r}" in text
    done = run(tmp_path, "python", "-c", text)
    assert done.code == 0, done.text[-1000:]


def test_what_is_known_to_fail_is_not_drawn_beside_others_nor_where_it_fails(tmp_path: Path) -> None:
    cases = tmp_path / "cases_that_fail.py"
    cases.write_text(_CASES)
    (tmp_path / "expectations.toml").write_text(
        '[[known]]\ncells = "layer[out_features=4]-*-opset<9-*"\nstage = "compare"\nreason = "a reason"\n'
        'link = "https://example.org"\n'
    )
    known = Catalogue([cases], {})
    alone = {card.name: card for number in (1, 2, 4, 5) for card in known.hand(0, number).cards}
    beside = {card.name for number in (0, 3, 6) for card in known.hand(0, number).cards}
    assert alone.keys() - beside == {"layer_out_features_4"}
    failing = alone["layer_out_features_4"]
    assert isinstance(failing, Part)
    assert [failing.may_fail(opset) for opset in (8, 9)] == [True, False]


def test_a_case_that_is_not_declared(cases: Path) -> None:
    with pytest.raises(DeclarationError, match="declares no layer"):
        declared(str(cases), "layer[out_features=9]", "float32")


# --- side by side -----------------------------------------------------------------------------------------------------

_ALONE = """
import torch
from onnx_parity.harness.case import complexes, floats, op

def _of_float32(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is not torch.float32:
        raise TypeError("it takes float32")
    return x + 1

def _raising(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("out of luck")

def _numbers(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    return x, float(x.sum())

def _products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 100) @ (y * 100)

of_float32 = op(_of_float32, floats(2, 3))
products = op(_products, floats(8, 64), floats(64, 8))
numbers = op(_numbers, floats(2))
conjugates = op(torch.conj_physical, complexes(2, 3))
large = op(torch.neg, floats(100, 100))
squares = op(torch.square, floats(2), tier="full")
"""


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    file = tmp_path / f"cases_of_{tmp_path.name}.py"  # Python knows a module by its name.
    file.write_text(_ALONE)
    return file


def _parts(file: Path, *names: str) -> list[Part]:
    found = dict(declared_under(file))
    return [next(parts_of(name, found[name], ())) for name in names]


def test_each_case_side_by_side_is_judged_by_itself(alone: Path) -> None:
    """One that cannot be computed in float64 takes that from no other: a product of this size needs it."""
    cards = _parts(alone, "of_float32", "products", "conjugates")
    for seed in range(6):
        drawn = draw(seed, Hand(cards, side_by_side=True))
        assert (drawn.refused, len(drawn.program.outputs)) == ("", 3)
        subject = ProbedProgram(drawn.program)
        with quietly():
            assert look(subject, AT).ending is Ending.RIGHT
        assert subject.example is not None
        has_centre = {
            name: each.centre is not None
            for name, each in zip(drawn.program.outputs, subject.example.expected, strict=True)
        }
        by_part = {line.part.rpartition("_")[0]: has_centre[line.makes[0]] for line in drawn.program.lines}
        assert by_part["products"]
        subject.release()


def test_nothing_stands_beside_cases_that_are_judged_by_themselves(alone: Path) -> None:
    cards = _parts(alone, "large", "numbers", "of_float32")
    drawn = draw(0, Hand(cards, side_by_side=True))
    assert [line.part for line in drawn.program.lines] == ["of_float32_0"]
    assert not any(
        card.name == "squares" for number in (1, 2, 4) for card in Catalogue([alone], {}).hand(0, number).cards
    )


def test_a_case_that_raises_is_named(alone: Path) -> None:
    alone.write_text(_ALONE + "raising = op(_raising, floats(2))\n")
    drawn = draw(0, Hand(_parts(alone, "raising"), side_by_side=True))
    assert "raising: ValueError: out of luck" in drawn.refused


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ('tier = "default"\n', Fault.REFUSED),
        ('tier = "default"\n[FILE]\n"<9" = ["here"]\n', None),
        ('tier = "default"\ntorch = "==1.0.*"\n', None),
        (None, None),
    ],
)
def test_a_refusal_is_a_fault_where_the_matrix_has_the_case(
    tmp_path: Path, file: str | None, fault: Fault | None
) -> None:
    cases = tmp_path / f"cases_of_{tmp_path.name}.py"
    cases.write_text(_ALONE + "here = op(torch.argwhere, floats(2, 3))\n")
    if file is not None:
        (tmp_path / "unsupported.toml").write_text(file.replace("FILE", cases.stem))
    subject = ProbedProgram(draw(0, Hand(_parts(cases, "here"), side_by_side=True)).program)
    with quietly():
        looked = look(subject, Point("onnxruntime", opset=8))
    assert looked.ending is (Ending.REFUSED if fault is None else Ending.FAILED)
    assert (looked.failure and looked.failure.fault) is fault


def test_the_script_of_a_case_of_complex_numbers_runs(alone: Path, tmp_path: Path) -> None:
    subject = ProbedProgram(draw(0, Hand(_parts(alone, "conjugates"), side_by_side=True)).program)
    text = script(subject, AT, Failure("parity", Fault.ERROR, "an error"), "a title")
    done = run(tmp_path, "python", "-c", text)
    assert done.code == 0, done.text[-1500:]
