"""Faults of generated programs: what finds them, how they are reduced, and the folder of a search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch

from onnx_parity.exporter.operators.activation import lowering as activation
from onnx_parity.harness.axes import Capture
from onnx_parity.harness.commands.search import _print
from onnx_parity.harness.inputs import Floats
from onnx_parity.harness.search import searching
from onnx_parity.harness.search.cause_of_failure import list_called, of_message
from onnx_parity.harness.search.fixed import Fixed
from onnx_parity.harness.search.generated import GeneratedProgram, Input, Line
from onnx_parity.harness.search.generating import quietly
from onnx_parity.harness.search.ledger import (
    read_findings,
)
from onnx_parity.harness.search.looking import Choice, Ending, look, unknown
from onnx_parity.harness.search.messages import Crashed, Found, Order, Report
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import FORMS, Fault, Point, agrees_with_autograd
from onnx_parity.harness.search.reducing import dies_at, reduce
from onnx_parity.harness.search.scripts import script
from onnx_parity.harness.search.searching import Search, SearchError
from onnx_parity.harness.search.zeros import case_has_sign, have_sign
from onnx_parity.harness.subjects.exporter_interface import Request

ORDER = Order(0, (), ("onnxruntime",), (), (18,), {})


def made(*lines: Line, outputs: tuple[str, ...]) -> GeneratedProgram:
    x = Input("x0", Floats((2, 3), dtype=torch.float32, low=-3.0, high=3.0), {})
    return GeneratedProgram((x,), lines, outputs)


CHAIN = made(
    Line("v0 = x0 * 2", ("v0",), ("x0",), "arithmetic"),
    Line("v1 = F.hardswish(v0)", ("v1",), ("v0",), "unary"),
    Line("v2 = v1 + x0", ("v2",), ("v1", "x0"), "arithmetic"),
    Line("v3 = x0.sin()", ("v3",), ("x0",), "unary"),
    outputs=("v2", "v3"),
)


@pytest.fixture
def wrong_hardswish() -> Iterator[None]:
    code = activation.hardswish.__code__
    activation.hardswish.__code__ = (lambda g, self: g.op("Neg", self)).__code__
    yield
    activation.hardswish.__code__ = code


AT = Point("onnxruntime", opset=18)


@pytest.mark.usefixtures("wrong_hardswish")
def test_a_fault_is_found_and_reduced() -> None:
    with quietly():
        looked = look(ProbedProgram(CHAIN), AT)
    assert looked.failure is not None
    assert (looked.failure.culprit, looked.failure.fault) == ("parity", Fault.WRONG)
    small = reduce(CHAIN, AT, looked.failure)
    assert [line.text for line in small.lines] == ["v1 = F.hardswish(v0)"]
    assert [value.shape for value in small.values()] == [(1, 1)]


@pytest.mark.usefixtures("wrong_hardswish")
def test_a_call_that_writes_without_saying_so_is_kept() -> None:
    program = made(
        Line("v0 = x0.sum(0)", ("v0",), ("x0",), "reduction"),
        Line("v1 = x0.mean(0).abs()", ("v1",), ("x0",), "reduction"),
        Line("v2 = F.batch_norm(F.hardswish(x0), v0, v1, training=True)", ("v2",), ("x0", "v0", "v1"), "norm"),
        outputs=("v0", "v2"),
    )
    with quietly():
        failure = look(ProbedProgram(program), AT).failure
    assert failure is not None
    small = reduce(program, AT, failure)
    with quietly():
        assert look(ProbedProgram(small), AT).failure is not None
    assert "batch_norm" in small.lines[-1].text


def test_without_the_fault_it_is_right() -> None:
    with quietly():
        assert look(ProbedProgram(CHAIN), AT).ending is Ending.RIGHT


def test_zeros_have_a_sign_but_where_onnx_leaves_it_open() -> None:
    inputs = (Input("a", Fixed((2,), dtype=torch.float32, tensor=torch.tensor([-0.1, -2.0])), {}),)
    calls = ("F.softshrink(a, 0.4)", "torch.remainder(a, -3.0)", "a // 3.0", "torch.div(a, 3.0, rounding_mode='trunc')")
    for call, signed in (*((call, False) for call in calls), ("torch.round(a)", True), ("torch.neg(a * 0)", True)):
        subject = ProbedProgram(GeneratedProgram(inputs, (Line(f"v = {call}", ("v",), ("a",), "a rule"),), ("v",)))
        assert subject.example is not None
        zeros = subject.example.expected[0].zeros
        assert (zeros is not None) is signed
        subject.release()


def test_models_that_agree_with_autograd() -> None:
    inputs = (Input("a", Fixed((2,), dtype=torch.float32, tensor=torch.tensor([-0.1, -2.0])), {}),)
    line = Line("v = a + torch.is_grad_enabled()", ("v",), ("a",), "a rule")
    with quietly():
        subject = ProbedProgram(GeneratedProgram(inputs, (line,), ("v",)))
        trial = subject.example
        assert trial is not None
        without = trial.expected[0].value
        assert agrees_with_autograd(subject, trial, [without + 1])
        assert not any(agrees_with_autograd(subject, trial, [without + by]) for by in (0, 2))


def test_a_sign_is_open_only_in_what_depends_on_such_a_function() -> None:
    lines = (
        Line("v0 = x0 @ x0.mT", ("v0",), ("x0",), "product"),
        Line("v1 = v0.relu()", ("v1",), ("v0",), "unary"),
        Line("v2 = torch.round(x0)", ("v2",), ("x0",), "unary"),
    )
    assert have_sign(made(*lines, outputs=("v2", "v1", "v0"))) == [True, False, False]
    written = Line("v2.add_(v0.sum())", (), ("v2", "v0"), "write")
    assert have_sign(made(*lines, written, outputs=("v2", "x0"))) == [False, False]
    plain = Line("v2.add_(1)", (), ("v2",), "write")
    assert have_sign(made(*lines, plain, outputs=("v2", "v1"))) == [True, False]
    assert not case_has_sign("operator_database.fft.ihfft2[sample=0]")
    assert case_has_sign("operator_database.neg[sample=0]")


def test_every_probe_takes_a_program() -> None:
    with quietly():
        endings = {
            point.probe: look(ProbedProgram(CHAIN), point).ending for point in Choice(("*",), opsets=(18,)).points(0)
        }
    assert set(endings.values()) <= {Ending.RIGHT, Ending.REFUSED}
    assert endings["shape_inference"] is Ending.RIGHT
    assert endings["decompositions"] is Ending.RIGHT


def negated(model: onnx.ModelProto) -> onnx.ModelProto:
    """A transformation that is wrong."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        node.op_type = node.op_type.replace("Sin", "Cos")
    return made


WITH_A_CONSTANT = replace(
    made(Line("v0 = x0 * w1", ("v0",), ("x0", "w1"), "arithmetic"), outputs=("v0",)),
    inputs=(
        Input("x0", Floats((2, 3), dtype=torch.float32, low=-3.0, high=3.0), {0: ("n", 5)}),
        Input("w1", Fixed((3,), dtype=torch.float32, tensor=torch.tensor([1.0, -2.0, 0.5])), {}, constant=True),
    ),
)


class Twice(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x0: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.module(x0)[0] * 2,)


def refuse(*inputs: torch.Tensor) -> torch.Tensor:
    raise ValueError("not of this size")


@pytest.mark.parametrize("form", FORMS)
def test_a_program_is_exported_in_other_forms(form: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, point = ProbedProgram(WITH_A_CONSTANT), Point(form)
    assert look(subject, point).ending is Ending.RIGHT
    assert subject.models.keys() == {("parity", form, 18)}
    subject.release()
    # If what torch makes of the program is wrong, the exporter is true to that.
    made_by_torch = Request.program
    monkeypatch.setattr(Request, "program", lambda self: made_by_torch(replace(self, module=Twice(self.module))))
    subject = ProbedProgram(WITH_A_CONSTANT)
    failure = look(subject, point).failure
    assert failure is not None
    assert (failure.culprit, failure.fault) == (FORMS[form], Fault.WRONG)
    assert FORMS[form] in script(subject, point, failure, "a title")
    # If it takes no such inputs, there is no result that the model would have to have.
    asked = subject.request(form)
    forms = iter([made_by_torch(replace(asked, module=Twice(asked.module))), refuse])
    monkeypatch.setattr(Request, "program", lambda self: next(forms))
    assert look(ProbedProgram(WITH_A_CONSTANT), point).ending is Ending.REFUSED
    subject.release()


def test_a_fault_of_a_transformation_of_ones_own() -> None:
    name = f"{__name__}:negated"
    (point,) = Choice((name,), opsets=(18,)).points(0)
    with quietly():
        looked = look(ProbedProgram(CHAIN), point)
    assert looked.failure is not None
    assert (looked.failure.culprit, looked.failure.fault) == (name, Fault.WRONG)
    with quietly():
        text = script(ProbedProgram(CHAIN), point, looked.failure, "it is wrong")
    assert f"MODEL = {__name__}.negated(MODEL)\n" in text
    compile(text, "script.py", "exec")


def test_a_crash_is_seen_from_outside(tmp_path: Path) -> None:
    kills = made(Line("v0 = __import__('os')._exit(3)", ("v0",), ("x0",), "x"), outputs=("v0",))
    assert dies_at(kills, AT, tmp_path / "stderr")
    assert not dies_at(CHAIN, AT, tmp_path / "stderr")


def test_names_of_probes() -> None:
    assert unknown(["onnx*", "no_such", "my_package.passes:fuse", "ort:no_such"]) == ["no_such", "ort:no_such"]
    seed = random.Random(0).getrandbits(60)
    assert list(Choice().points(seed)) == list(Choice().points(seed))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("v1 = x0 << (v0 % 4).abs()", ["abs", "<<", "%"]),
        ("v1 = torch.nn.functional.pad(x0, (-1, 2))", ["F.pad"]),
        ("v1 = x0[1:-1]", ["views"]),
    ],
)
def test_what_a_line_calls(line: str, names: list[str]) -> None:
    assert list_called(made(Line(line, ("v1",), ("x0",), "views"), outputs=("v1",))) == names


def test_errors_that_differ_in_names_have_one_cause() -> None:
    one, other = (
        "Error: (op_type:Add, node name: /Add_1): 3 of tensor(bool)",
        "Error: (op_type:Add, node name: /A): 17 of tensor(bool)",
    )
    assert of_message(one) == of_message(other) != of_message(one.replace("bool", "int8"))


# --- the folder of a search -------------------------------------------------------------------------------------------


def test_a_program_that_cannot_be_drawn_is_a_fault_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = Crashed(0, searching.DRAWING, "the process exited with 1: ValueError: expected 3")
    monkeypatch.setattr(searching._Worker, "_ask", lambda worker, task: died)
    looking = Search.at(tmp_path, ORDER, tmp_path)
    with pytest.raises(SearchError, match=r"Program [01] could not be drawn, by a fault of the search itself"):
        looking.run(processes=2, seconds=60, most=9, done=lambda report: None)
    assert not looking.new


def test_a_search_goes_on_where_it_was(tmp_path: Path) -> None:
    search = Search.at(tmp_path, ORDER, tmp_path / "ledger")
    found = Found(
        0, "parity at opset 18", "parity", "wrong result", "output 0 differs", "rough", "the cause", "", "pass\n"
    )
    search.keep(Report(0, 3, "", True, True, {"failed": 1}, 0.1, (found, found)))
    search.write_state()
    again = Search.at(tmp_path, ORDER, tmp_path / "ledger")
    assert again.state.totals.programs == 1
    assert again.state.causes == {"the cause": 2}
    assert list(read_findings(tmp_path / "findings")) == ["the_cause"]
    with pytest.raises(SearchError, match="other options"):
        Search.at(tmp_path, Order(1, (), (), (), (18,), {}), tmp_path / "ledger")


@pytest.mark.parametrize(
    ("exporters", "probes", "told"),
    [
        (
            (),
            (),
            ["40.0 a second on two cores, through this", "200.0 a second of them", "20.0 a second on two cores with"],
        ),
        (("parity",), ("onnxruntime*",), ["40.0 a second on", "200.0 a second of", "20.0 a second on two cores with"]),
        (("torch_script",), (), ["20.0 a second on two cores with all"]),
        ((), ("text",), ["20.0 a second on two cores with all"]),
    ],
)
def test_the_speed_of_this_exporter_is_told_apart(
    exporters: tuple[str, ...],
    probes: tuple[str, ...],
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    looking = Search.at(tmp_path, Order(0, (), probes, exporters, (18,), {}), tmp_path)
    looking.keep(Report(0, 3, "", True, True, {"right": 1}, 0.13, (), 0.04))
    looking.keep(Report(1, 3, "", True, True, {"right": 1}, 0.07, (), 0.06, warm=True))
    _print(looking, 2, 1.0, 1)
    speeds = [line.strip() for line in capsys.readouterr().out.splitlines() if " a second " in line]
    assert [line.startswith(start) for line, start in zip(speeds, told, strict=True)] == [True] * len(told)
