"""Generated programs: what is drawn, its source, and the probes that each seed gets."""

from __future__ import annotations

import pytest
import torch

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.inputs import Floats
from onnx_parity.harness.search.catalogue import Call, Catalogue, NotSpelledError, calls_of_entry, results_of, spelled
from onnx_parity.harness.search.draft import Draft, FixedSizeError, RefusedError
from onnx_parity.harness.search.fixed import Fixed
from onnx_parity.harness.search.generating import Drawn, draw, quietly
from onnx_parity.harness.search.looking import Choice
from onnx_parity.harness.search.messages import Order
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.rules.every import RULES

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
