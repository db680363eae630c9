"""Localisation and reduction, with lowerings that are wrong on purpose."""

from __future__ import annotations

import dataclasses
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnx_parity
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.harness.axes import PARITY, Capture, Device, Dtype, Shapes
from onnx_parity.harness.case import Declaration, floats, model, op
from onnx_parity.harness.localisation.localise import Localisation, NothingToLocaliseError, Suspect, localise
from onnx_parity.harness.localisation.reduce import Reduced, reduce, write_source
from onnx_parity.harness.localisation.walk import Walk
from onnx_parity.harness.matrix.cells import Cell
from tests.harness.fakes import cell


class Net(nn.Module):
    """Two blocks; the operator that goes wrong is in the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Hardsigmoid(), nn.AvgPool2d(2))
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x))
        scores: torch.Tensor = self.head(y.flatten(1))
        return scores.exp() * 2


_NET = model(Net, floats(2, 3, 8, 8), dynamic={"x": {0: "batch"}})


def hard_sigmoid(g: Graph, self: Value) -> Value:
    """Its slope is 1/6; 0.2 is ONNX's default, and an easy thing to forget."""
    return g.op("HardSigmoid", self)


def localised(declaration: Declaration, *, window: int = 32, **point: object) -> tuple[Suspect, Localisation]:
    suspect = Suspect.of(cell(declaration, **point))  # type: ignore[arg-type]  # by name
    return suspect, localise(suspect, window=window)


def reduced(declaration: Declaration) -> tuple[Localisation, Reduced]:
    suspect, found = localised(declaration)
    small = reduce(suspect, found)
    assert small is not None
    return found, small


@pytest.mark.parametrize("window", [1, 2, 3, 32])
def test_the_first_divergence_has_its_operator_its_module_and_its_line(
    wrong: Callable[[str, Callable[..., Value]], None], window: int
) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)
    _, found = localised(_NET, window=window)
    assert found.first is not None
    assert (found.first.operator, found.first.module, found.first.number) == ("aten::hardsigmoid", "second.1", 3)
    assert found.alone is not None
    assert not found.alone.passed
    assert [step.operator for step in found.growth][-1] == "aten::hardsigmoid"
    assert found.growth[-1].growth > 100 * max((step.growth for step in found.growth[:-1]), default=0.01)


def test_the_report_of_a_localisation(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)
    _, found = localised(_NET)
    *growth, first, detail, alone, lowering, blame = found.lines()
    head = r"case-float32-opset18-cpu-trace-onnxruntime: 9 operators, declared at localisation/test_localisation.py:\d+"
    assert re.fullmatch(head, growth[0])
    assert first.startswith("first divergence: aten::hardsigmoid, ")
    assert first.endswith(" in second.1")
    assert detail.startswith("  output 0 at (")
    assert alone == "given torch's own values it is still wrong: its export, or the runtime's kernel for it, is"
    assert re.fullmatch(r"lowering: harness/localisation/test_localisation.py:\d+ in hard_sigmoid", lowering)
    assert blame == "blame: exporter: onnx.reference agrees with onnxruntime, so the graph is wrong"


def test_a_dynamic_cell_is_searched_at_the_sizes_at_which_it_fails(
    wrong: Callable[[str, Callable[..., Value]], None],
) -> None:
    def mean(g: Graph, self: Value, *, dtype: object = None) -> Value:
        # Right for the example's two rows and for no other number of them.
        return g.op("Div", g.op("ReduceSum", self, keepdims_i=0), 6.0)

    wrong("aten::mean", mean)
    declaration = op(lambda x: x.tanh().mean() + 1, floats(2, 3), dynamic={"x": {0: "batch"}})
    suspect, found = localised(declaration, shapes=Shapes.DYNAMIC)
    assert suspect.trial.which.sizes == (("batch", 1),)
    assert found.first is not None
    assert found.first.operator == "aten::mean"


def test_an_operator_that_only_magnifies_is_distinguished_from_a_wrong_one(
    wrong: Callable[[str, Callable[..., Value]], None],
) -> None:
    def slightly_off(g: Graph, self: Value, other: Value | float) -> Value:
        return g.op("Mul", g.op("Mul", self, other), 1.0000004)

    wrong("aten::mul", slightly_off)
    _, found = localised(op(lambda x: x * 2 - (x + x), floats(4, low=0.5, high=1.0)))
    assert found.first is not None
    assert found.first.operator == "aten::sub"
    assert found.alone is not None
    assert found.alone.passed
    assert "given torch's own values it is correct: it magnifies an earlier error" in list(found.lines())


def test_a_lowering_that_raises_is_found_as_well(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    def raises(g: Graph, self: Value) -> Value:
        raise IndexError("off by one")

    wrong("aten::hardsigmoid", raises)
    _, found = localised(_NET)
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"
    assert "failed with IndexError: off by one" in found.first.error


@pytest.mark.slow
def test_memory_is_bounded_by_the_window(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    class Deep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(60):
                x = x.sin() + 1
            return F.hardsigmoid(x)

    wrong("aten::hardsigmoid", hard_sigmoid)
    suspect = Suspect.of(cell(model(Deep, floats(3))))
    held = {}
    for window in (4, 16):
        walk = Walk(suspect.recording, suspect.execute, window=window)
        assert len(list(walk.steps(suspect.inputs, suspect.example))) == 121
        held[window] = walk.most_held
    # Of each value there are four: torch's, its float64 twin, the runtime's, the example's.
    assert held[4] <= 4 * (4 + 2)
    assert held[16] <= 4 * (16 + 2)


def test_what_is_drawn_is_nobodys_divergence(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)

    def drawn(x: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(x + torch.rand_like(x).ceil() + torch.empty(3, 4).zero_())

    suspect = Suspect.of(cell(op(drawn, floats(3, 4))))
    steps = list(Walk(suspect.recording, suspect.execute).steps(suspect.inputs, suspect.example))
    assert "aten::rand_like" in [step.operator for step in steps]
    assert [step.operator for step in steps if step.diverges] == ["aten::hardsigmoid"]


def test_what_could_be_drawn_and_is_not_can_diverge(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    wrong("aten::bernoulli", lambda g, self, p=None, **_: g.op("Mul", self, 0.0))
    _, found = localised(op(lambda x: torch.bernoulli(x * 0 + 1) * 2, floats(3, 4)))
    assert found.first is not None
    assert found.first.operator == "aten::bernoulli"


def test_the_signs_of_zeros_that_a_case_does_not_have_are_no_divergence(
    wrong: Callable[[str, Callable[..., Value]], None],
) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)
    declaration = op(
        lambda x: F.hardsigmoid(x.round() + 1), floats(3, 4, low=-0.4, high=-0.1), signed_zeros=False, because="a test"
    )
    _, found = localised(declaration, opset=9)
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"


def test_a_cell_that_passes_has_nothing_to_localise() -> None:
    with pytest.raises(NothingToLocaliseError) as told:
        Suspect.of(cell(_NET))
    assert str(told.value).endswith("-onnxruntime passes: there is nothing to localise or reduce.")


def test_a_refusal_has_nothing_to_localise() -> None:
    with pytest.raises(NothingToLocaliseError) as told:
        Suspect.of(cell(op(torch.exp, floats(3), dtypes=[torch.bfloat16]), opset=9, dtype=Dtype.BFLOAT16))
    assert "is unsupported at export: aten::exp: " in str(told.value)


def test_a_program_that_cannot_be_taken_apart_is_reported() -> None:
    """Some exporter fails with it, and the recording that the search begins with does not follow it either."""
    scratch = torch.zeros(3)
    declaration = op(lambda x: scratch.copy_(x) + 1, floats(3))
    with pytest.raises(NothingToLocaliseError) as told:
        Suspect.of(dataclasses.replace(cell(declaration), exporter="json:dumps"))
    assert str(told.value).startswith(
        "case-float32-opset18-cpu-trace-onnxruntime-json:dumps cannot be taken apart: the program writes in place "
    )


# --- reduction --------------------------------------------------------------------------------------------------------


def test_a_wrong_operator_is_reduced_to_itself(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)
    _, small = reduced(_NET)
    assert [str(node.op) for node in small.piece.nodes] == ["aten.hardsigmoid.default"]
    assert small.detail.startswith("output 0 at (")


def test_what_is_wrong_only_together_is_reduced_to_what_it_takes(
    wrong: Callable[[str, Callable[..., Value]], None],
) -> None:
    def confused_by_exp(g: Graph, self: Value, other: Value | float) -> Value:
        producer = self.ir.producer()
        product = g.op("Mul", self, other)
        return g.op("Add", product, 1.0) if producer is not None and producer.op_type == "Exp" else product

    wrong("aten::mul", confused_by_exp)
    found, small = reduced(_NET)
    assert found.first is not None
    assert found.first.operator == "aten::mul"
    assert [str(node.op) for node in small.piece.nodes] == ["aten.exp.default", "aten.mul.Tensor"]


def test_the_reduced_program_is_a_file_that_runs_and_still_fails(
    wrong: Callable[[str, Callable[..., Value]], None], tmp_path: Path
) -> None:
    def halved(g: Graph, input: Value, weight: Value, bias: Value) -> Value:
        return g.op("Gemm", input, weight, bias, transB_i=1, alpha_f=0.5)

    wrong("aten::linear", halved)
    _, small = reduced(_NET)
    written = runpy.run_path(str(write_source(small, tmp_path, "what is left of it")))
    program, inputs = written["Program"](), written["INPUTS"]
    (output,) = program(*inputs)
    assert torch.equal(output, small.piece(*small.inputs)[0])
    exported = onnx_parity.export(program, inputs)
    assert not torch.allclose(exported(*inputs)[0], output)
    assert written["__doc__"] == "what is left of it"
    text = (tmp_path / "program.py").read_text()
    assert "v0 = torch.ops.aten.linear.default(input=x0, weight=self.w0, bias=self.w1)  # " in text
    assert " in head\n" in text


def test_a_peers_cell_is_taken_apart_as_well(wrong: Callable[[str, Callable[..., Value]], None]) -> None:
    wrong("aten::hardsigmoid", hard_sigmoid)
    case = next(_NET.cases("case"))
    peer = Cell(case, Dtype.FLOAT32, 18, Device.CPU, Capture.TRACE, "onnx_parity:export", "onnxruntime", Shapes.STATIC)
    assert peer.exporter != PARITY
    found = localise(Suspect.of(peer))
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"
