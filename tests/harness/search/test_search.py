"""Generated programs: what is drawn, what finds a fault in them, how they are reduced, and findings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import onnx
import pytest
import torch
from typer.testing import CliRunner

from onnx_parity.exporter.operators.activation import lowering as activation
from onnx_parity.harness.axes import Capture, Dtype
from onnx_parity.harness.cli import app
from onnx_parity.harness.commands.search import _print
from onnx_parity.harness.inputs import Floats
from onnx_parity.harness.search import searching
from onnx_parity.harness.search.catalogue import Call, Catalogue, NotSpelledError, calls_of_entry, results_of, spelled
from onnx_parity.harness.search.cause_of_failure import list_called, of_message
from onnx_parity.harness.search.draft import Draft, FixedSizeError, RefusedError
from onnx_parity.harness.search.fixed import Fixed
from onnx_parity.harness.search.generated import GeneratedProgram, Input, Line
from onnx_parity.harness.search.generating import Drawn, draw, quietly
from onnx_parity.harness.search.ledger import (
    Finding,
    FindingError,
    Now,
    issue_text,
    read,
    read_findings,
    rerun,
    slug,
    write,
    write_outcome,
)
from onnx_parity.harness.search.looking import Choice, Ending, look, unknown
from onnx_parity.harness.search.messages import Crashed, Found, Order, Report
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import FORMS, Fault, Point, agrees_with_autograd
from onnx_parity.harness.search.reducing import dies_at, reduce
from onnx_parity.harness.search.rules.every import RULES
from onnx_parity.harness.search.scripts import script
from onnx_parity.harness.search.searching import Search, SearchError
from onnx_parity.harness.search.zeros import case_has_sign, have_sign
from onnx_parity.harness.subjects.exporters import Request

ORDER = Order(0, (), ("onnxruntime",), (), (18,), {})


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return [draw(seed) for seed in range(40)]


def test_programs_run_and_are_finite(drawn: list[Drawn]) -> None:
    assert [each.refused for each in drawn if each.refused] == []
    assert sum(each.finite for each in drawn) >= 32


def test_the_lines_of_a_program_are_those_of_its_source(drawn: list[Drawn]) -> None:
    with quietly():
        for each in drawn[:10]:
            outputs = ProbedProgram(each.program).run(each.program.values())
            bound = dict(each.program.bound(each.program.values()))
            assert [output.shape for output in outputs] == [bound[name].shape for name in each.program.outputs]


def test_a_seed_has_one_program(drawn: list[Drawn]) -> None:
    again = draw(7).program
    assert again.source == drawn[7].program.source
    assert all(map(torch.equal, again.values(), drawn[7].program.values()))


def test_what_is_drawn_has_what_a_search_needs(drawn: list[Drawn]) -> None:
    programs = [each.program for each in drawn]
    assert any(program.dynamic_axes for program in programs)
    assert any(not line.makes for program in programs for line in program.lines), "a write in place"
    assert any(0 in value.shape for program in programs for value in program.values())
    assert len({value.dtype for program in programs for value in program.values()}) >= 5
    assert len({line.rule for program in programs for line in program.lines}) >= len(RULES) // 2


def test_a_rule_is_refused_where_torch_is() -> None:
    draft = Draft(0)
    x = draft.fresh("float", (2, 3))
    with pytest.raises(RefusedError, match="no_such_function"):
        draft.add("torch.no_such_function({0})", x)


def test_a_line_that_fixes_a_size_is_left_out() -> None:
    draft = Draft(0)
    x = draft.given(Floats((6, 2), dtype=torch.float32), {0: ("n", 3)})
    with pytest.raises(FixedSizeError):
        draft.add("{0}.reshape(2, 6)", x)
    assert not draft.lines
    assert draft.add("{0}.reshape({0}.shape[0] * 2)", x).varies(0)


def test_values_are_brought_into_a_range() -> None:
    draft = Draft(1)
    x = draft.fresh("float", (4,), low=-9, high=9, dtype=torch.float32)
    low, high = draft.within(x, -0.5, 0.5).range()
    assert -0.5 <= low <= high <= 0.5
    assert draft.within(x, 2, float("inf")).range()[0] >= 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(torch.float16, "torch.float16"), ((1,), "(1,)"), ([None, 2.5], "[None, 2.5]"), ("{}", "'{{}}'")],
)
def test_arguments_as_source(value: object, text: str) -> None:
    assert spelled(value) == text


def test_a_call_of_the_operator_database() -> None:
    calls = calls_of_entry("clamp", Dtype.FLOAT32, (0,))
    assert [call.name for call in calls if call] == ["clamp"]
    assert calls[0] is not None
    assert calls[0].text.startswith("torch.clamp({0}, {1}, {2}")
    assert all(isinstance(maker, Fixed) for maker in calls[0].makers)


def test_every_card_has_its_turn() -> None:
    known = Catalogue([], {"clamp": {Dtype.FLOAT32: tuple(range(5)), Dtype.INT64: (0,)}, "sin": {Dtype.FLOAT32: (0,)}})
    rounds = [[card for number in numbers for card in known.hand(5, number).cards] for numbers in ((0, 1), (2, 3))]
    assert [len(set(cards)) for cards in rounds] == [7, 7]
    assert set(rounds[0]) == set(rounds[1])
    assert rounds[0] != rounds[1]
    assert Catalogue([], {}).hand(5, 0).cards == []


def test_a_program_is_run_at_four_opsets_and_put_to_other_probes_at_the_first() -> None:
    points = list(Choice(("onnxruntime", "text")).points(3))
    by_probe = {name: [each.opset for each in points if each.probe == name] for name in ("onnxruntime", "text")}
    assert len(set(by_probe["onnxruntime"])) == 4
    assert by_probe["text"] == by_probe["onnxruntime"][:1]
    assert [each.opset for each in Choice(("onnxruntime",), opsets=(9,)).points(3)] == [9]


def test_a_value_is_written_to_and_read_by_one_call_only_if_both_are_one_argument() -> None:
    """batch_norm reads a weight after it has written to the running mean; the order is torch's own affair."""
    draft = Draft(3)
    shapes = ((3, 2), (2,), (2,), (2,))
    x, mean, variance, weight = (
        draft.given(Fixed(shape, dtype=torch.float32, tensor=torch.rand(shape)), {}) for shape in shapes
    )
    call = Call("norm", "F.batch_norm({0}, {1}, {2}, {3}, training=True)", ())
    assert results_of(call, (x, mean, variance, mean)) == (0, "")
    assert results_of(call, (x, mean, variance, weight)) == (1, call.text)


def test_complex_results_are_pairs_of_real_numbers() -> None:
    x = Draft(3).given(Fixed((2, 2), dtype=torch.float32, tensor=torch.rand(2, 2)), {})
    assert results_of(Call("fft", "torch.fft.fft({0})", ()), (x,)) == (
        1,
        "torch.view_as_real(torch.fft.fft({0}).resolve_conj())",
    )
    eigenvalues = "torch.view_as_real(torch.linalg.eig({0})[0].resolve_conj())"
    assert results_of(Call("eig", "torch.linalg.eig({0})", ()), (x,)) == (1, eigenvalues)
    assert results_of(Call("slogdet", "torch.linalg.slogdet({0})", ()), (x,)) == (2, "torch.linalg.slogdet({0})")
    assert results_of(Call("svdvals", "torch.linalg.svdvals({0})", ()), (x,)) == (1, "torch.linalg.svdvals({0})")


def test_an_object_has_no_source() -> None:
    with pytest.raises(NotSpelledError):
        spelled(object())


# --- a fault is found and reduced -------------------------------------------------------------------------------------


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


# --- findings ---------------------------------------------------------------------------------------------------------

FINDING = Finding(
    title='A "quoted" defect', culprit="onnxruntime", fault="error", defect="It is\nsaid.", exit=1, prints="got 1\n"
)


@pytest.mark.parametrize(
    ("script", "now"),
    [
        ("print('got 1')\nraise SystemExit(1)", Now.THERE),
        ("print('got 2')\nraise SystemExit(1)", Now.CHANGED),
        ("import os; os.abort()", Now.CHANGED),
        ("print('right')", Now.GONE),
        ("import no_such_module_at_all", Now.UNKNOWN),
        ("print(\"ModuleNotFoundError No module named 'no_such.part'\")\nraise SystemExit(1)", Now.UNKNOWN),
    ],
)
def test_what_became_of_a_finding(tmp_path: Path, script: str, now: Now) -> None:
    write(tmp_path / "it", FINDING, script)
    assert read(tmp_path / "it") == FINDING
    assert rerun(tmp_path / "it", FINDING).now is now


def test_a_new_state_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "it", FINDING, "print('got 2')\nraise SystemExit(5)")
    kept = write_outcome(tmp_path / "it", FINDING, rerun(tmp_path / "it", FINDING))
    assert (kept.exit, kept.prints.strip()) == (5, "got 2")
    assert rerun(tmp_path / "it", read(tmp_path / "it")).now is Now.THERE


def test_the_text_of_an_issue(tmp_path: Path) -> None:
    write(tmp_path / "it", FINDING, "print(1)\n")
    text = issue_text(tmp_path / "it", FINDING)
    assert text.startswith('# A "quoted" defect\n\nIt is\nsaid.\n\nTo reproduce:\n\n```python\nprint(1)\n```')


def test_a_damaged_finding_is_named(tmp_path: Path) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "finding.toml").write_text("title = 3")
    with pytest.raises(FindingError, match=r"it/finding\.toml cannot be read"):
        read_findings(tmp_path)


def test_names_of_findings() -> None:
    assert slug("onnxruntime: TopK, of 3!") == "onnxruntime_topk_of_3"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--folder", "nowhere"], "nowhere: there is no such folder."),
        (["onnxruntim_max_pool"], "has no finding 'onnxruntim_max_pool'. Did you mean onnxruntime_max_pool?"),
        (["--culprit", "onnxruntim"], "has the culprit 'onnxruntim'. There are onnxruntime."),
        (["--fault", "bug"], "has the fault 'bug'. There are error."),
        (["--unread", "--culprit", "onnx*"], "has findings, but none that meets all of these conditions."),
        (["--keep"], "give --run as well"),
        (["--issue", "--run"], "runs nothing: remove --run"),
    ],
)
def test_what_no_finding_meets_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    write(tmp_path / "onnxruntime_max_pool", msgspec.structs.replace(FINDING, read=True), "print(1)\n")
    folder = [] if "--folder" in arguments else ["--folder", str(tmp_path)]
    result = CliRunner().invoke(app, ["findings", *folder, *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
