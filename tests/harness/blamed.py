"""Failing cells whose cause is known, because it was planted. What is blamed for each is compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from onnx_parity.exporter.arrays import Array
from onnx_parity.harness.case import Declaration, floats, op
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Blame, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.transformations.transformation import Transformation
from tests.harness.fakes import FakeExporter, LyingRuntime, cell, model, one_node

_ELU = op(F.elu, floats(2, 3))
_RUNTIMES = ("onnxruntime", "onnxruntime:none", "onnx.reference")


@dataclass(frozen=True)
class Planted:
    """A cell with a fault, and what is to blame for it."""

    blame: Blame
    run: Callable[[], Outcome]
    #: What the details have to name.
    named: str = ""

    def told_wrongly(self) -> str:
        """What is wrong with the ruling; empty if it is right."""
        outcome = self.run()
        if outcome.status is not Status.FAILED or outcome.blame is not self.blame:
            return f"{self.blame}: {outcome.status} at {outcome.stage}, blamed {outcome.blame}: {outcome.details}"
        text = "\n".join((outcome.reason, *outcome.details))
        return "" if self.named in text else f"{self.blame}: {self.named!r} is not named: {outcome.details}"


def elu(opset: int, request: Request) -> bytes:
    return one_node("Elu", opset, (2, 3))


def exporters_fault(random: np.random.Generator) -> Planted:
    """A graph that is not the program: another attribute or operator, a step too much, one output too many."""
    value = np.float32(random.uniform(0.2, 0.8))
    more = [helper.make_node("Elu", ["x"], ["e"]), helper.make_node("Mul", ["e", "w"], ["y"])]
    graphs: list[Callable[[int], bytes]] = [
        lambda opset: one_node("Elu", opset, (2, 3), alpha=float(value)),
        lambda opset: model([helper.make_node("Relu", ["x"], ["y"])], opset),
        lambda opset: model(more, opset, weights={"w": np.full(3, 1 + value, np.float32)}),
        lambda opset: model([helper.make_node("Elu", ["x"], ["y"])], opset, (3, 2)),
        lambda opset: model([helper.make_node("Elu", ["x"], ["y"])], opset - 1),
    ]
    make = graphs[random.integers(len(graphs))]
    exporter = FakeExporter(lambda opset, request: make(opset))
    at = cell(_ELU, runtime=_RUNTIMES[random.integers(3)])
    return Planted(Blame.EXPORTER, lambda: Bench(0, exporters={"parity": exporter}).run(at))


def runtimes_fault(random: np.random.Generator) -> Planted:
    """A runtime with wrong values, another dtype, another shape, or an error."""
    value = np.float32(random.uniform(0.2, 0.8))

    def fail(output: Array) -> Array:
        raise RuntimeError("the runtime failed")

    lies: list[Callable[[Array], Array]] = [
        lambda output: output + value,
        lambda output: -output,
        lambda output: np.asarray(output.astype(np.float64)),
        lambda output: output[:1],
        fail,
    ]
    name = _RUNTIMES[random.integers(3)]
    lying = LyingRuntime(lies[random.integers(len(lies))], name)
    at = cell(_ELU, runtime=name)
    return Planted(
        Blame.RUNTIME, lambda: Bench(0, exporters={"parity": FakeExporter(elu)}, runtimes={name: lying}).run(at)
    )


def transformations_fault(random: np.random.Generator) -> Planted:
    """A transformation among two that are right: it changes results, the interface or the opset, or fails."""
    value = float(random.uniform(0.2, 0.8))

    def other_attribute(given: onnx.ModelProto) -> object:
        given.graph.node[0].attribute[0].f = value
        return given

    def other_name(given: onnx.ModelProto) -> object:
        given.graph.input[0].name = given.graph.node[0].input[0] = "renamed"
        return given

    def other_opset(given: onnx.ModelProto) -> object:
        given.opset_import[0].version -= 1
        return given

    def other_shape(given: onnx.ModelProto) -> object:
        given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "any"
        return given

    def one_step_more(given: onnx.ModelProto) -> object:
        given.graph.node[0].output[0] = "e"
        given.graph.initializer.append(numpy_helper.from_array(np.full((), value, np.float32), "w"))
        given.graph.node.append(helper.make_node("Sub", ["e", "w"], ["y"]))
        return given

    def failure(given: onnx.ModelProto) -> object:
        raise KeyError("x")

    faults = (other_attribute, other_name, other_opset, other_shape, one_step_more, failure, lambda given: None)
    fault = faults[random.integers(len(faults))]
    chain = [_transformation(name, lambda given: given) for name in ("one:first", "two:second")]
    chain.insert(int(random.integers(3)), _transformation("bad:one", fault))
    at = cell(_ELU, runtime=_RUNTIMES[random.integers(3)], transforms=tuple(each.name for each in chain))
    bench = Bench(0, exporters={"parity": FakeExporter(elu)}, transformations={each.name: each for each in chain})
    return Planted(Blame.TRANSFORMATION, lambda: bench.run(at), "bad:one")


def _transformation(name: str, apply: Callable[[onnx.ModelProto], object]) -> Transformation:
    return Transformation(name, lambda given, samples: apply(given), "onnx", ())


def precisions_fault(random: np.random.Generator) -> Planted:
    """A runtime that rounds more than others, and a graph that loses digits in every runtime but not in float64."""
    if random.integers(2):
        factor = np.float32(1.0 + random.uniform(1e-5, 3e-5))
        name = _RUNTIMES[random.integers(1, 3)]
        lying = LyingRuntime(lambda output: output * factor, name)
        at = cell(_ELU, runtime=name)
        bench = Bench(0, exporters={"parity": FakeExporter(elu)}, runtimes={name: lying})
        return Planted(Blame.PRECISION, lambda: bench.run(at))
    far = np.float32(random.uniform(1e3, 1e5))
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Sub", ["a", "w"], ["b"]),
        helper.make_node("Elu", ["b"], ["y"]),
    ]
    exporter = FakeExporter(lambda opset, request: model(nodes, opset, weights={"w": np.full(1, far)}))
    at = cell(_ELU, runtime=_RUNTIMES[random.integers(3)])
    return Planted(Blame.PRECISION, lambda: Bench(0, exporters={"parity": exporter}).run(at))


def cases_fault(random: np.random.Generator) -> Planted:
    """A case whose program torch does not run, or runs with another result each time."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(int(random.integers(7, 99)))

    declarations: list[Declaration] = [
        op(fails, floats(2, 3)),
        op(lambda x: x + _fresh(), floats(2, 3)),
        op(lambda x: x @ x, floats(2, 3)),
    ]
    at = cell(declarations[random.integers(len(declarations))])
    return Planted(Blame.CASE, lambda: Bench(0, exporters={"parity": FakeExporter(elu)}).run(at))


_drawn = np.random.default_rng(0)


def _fresh() -> float:
    """Another number each time, which torch's seed does not determine."""
    return float(_drawn.uniform())


KINDS = (exporters_fault, runtimes_fault, transformations_fault, precisions_fault, cases_fault)


def planted(repeats: int) -> Iterator[tuple[Blame, list[str]]]:
    """What was told wrongly of so many faults of each kind."""
    for kind in KINDS:
        faults = [kind(np.random.default_rng(number)) for number in range(repeats)]
        yield faults[0].blame, [words for fault in faults if (words := fault.told_wrongly())]
