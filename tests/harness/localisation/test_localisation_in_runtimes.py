"""Localisation and reduction through other runtimes and chains of transformations, with faults that are planted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch.nn.functional as F

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Device, Dtype
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.localisation.localise import Localisation, Suspect, localise
from onnx_parity.harness.localisation.reduce import reduce
from onnx_parity.harness.record import Blame, Stage
from onnx_parity.harness.running.isolated_runtime import IsolatedRuntime, RemoteError, RuntimeEndedError
from onnx_parity.harness.subjects.delivered import proto_of
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, Session
from onnx_parity.harness.subjects.runtimes import RUNTIMES, OnnxRuntime
from onnx_parity.harness.transformations.named import TRANSFORMATIONS
from onnx_parity.harness.transformations.transformation import Transformation
from tests.harness.fakes import LyingRuntime, cell, one_node

_GATED = op(lambda x: F.hardsigmoid(x * 1.5).exp(), floats(2, 3))


@dataclass
class Faulty:
    """onnxruntime, which does something to models that have a HardSigmoid, when it loads them."""

    fault: Callable[[Session], Session]
    name: str = "faulty"
    opsets: tuple[int, ...] = OPSETS
    dtypes: frozenset[Dtype] = frozenset(Dtype)
    packages: tuple[str, ...] = ()

    def missing(self, device: Device) -> str:
        return ""

    def load(self, model: bytes | Path, device: Device) -> Session:
        session = OnnxRuntime().load(model, device)
        return self.fault(session) if "HardSigmoid" in operators(proto_of(model)) else session


@dataclass
class _OffByOne:
    honest: Session

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return [np.asarray(each) + np.float32(1) for each in self.honest.run(feeds)]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def localised(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Session], Session]) -> tuple[Suspect, Localisation]:
    monkeypatch.setitem(RUNTIMES, "faulty", Faulty(fault))
    suspect = Suspect.of(cell(_GATED, runtime="faulty"))
    return suspect, localise(suspect, window=1)


def test_the_operator_that_a_runtime_computes_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    suspect, found = localised(monkeypatch, _OffByOne)
    assert found.first is not None
    assert (found.first.operator, suspect.outcome.blame) == ("aten::hardsigmoid", Blame.RUNTIME)
    assert found.blame.endswith("so faulty is wrong")
    small = reduce(suspect, found)
    assert small is not None
    assert [str(node.op) for node in small.piece.nodes] == ["aten.hardsigmoid.default"]


def test_the_operator_at_which_a_runtime_crashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(session: Session) -> Session:
        os.kill(os.getpid(), signal.SIGKILL)
        return session

    suspect, found = localised(monkeypatch, crash)
    assert suspect.outcome.stage is Stage.LOAD
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"
    assert found.first.error.startswith("RuntimeEndedError: the process of faulty was killed by SIGKILL")
    small = reduce(suspect, found)
    assert small is not None
    assert small.detail.startswith("RuntimeEndedError: ")


def test_a_piece_that_a_runtime_refuses_alone_is_no_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Picky(Faulty):
        def load(self, model: bytes | Path, device: Device) -> Session:
            if operators(proto_of(model)) == ["Mul"]:
                raise NoKernelError("no Mul of its own")
            return super().load(model, device)

    monkeypatch.setitem(RUNTIMES, "faulty", Picky(_OffByOne))
    suspect = Suspect.of(cell(_GATED, runtime="faulty"))
    found = localise(suspect, window=1)
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"


def test_the_operator_that_a_transformation_of_a_chain_spoils_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(model: onnx.ModelProto) -> onnx.ModelProto:
        for node in model.graph.node:
            if node.op_type == "HardSigmoid":
                node.attribute[0].f += 0.1
        return model

    def plant(name: str, apply: Callable[[onnx.ModelProto], object]) -> None:
        made = Transformation(name, lambda model, samples: apply(model), "onnx", ("onnx",))
        monkeypatch.setitem(TRANSFORMATIONS, name, made)

    plant("it:first", lambda model: model)
    plant("it:spoils", spoil)
    plant("it:last", lambda model: model)
    suspect = Suspect.of(cell(_GATED, runtime="onnx.reference", transforms=("it:first", "it:spoils", "it:last")))
    found = localise(suspect)
    assert suspect.outcome.blame is Blame.TRANSFORMATION
    assert found.first is not None
    assert found.first.operator == "aten::hardsigmoid"
    lines = list(found.lines())
    assert lines[-3].startswith("given torch's own values it is still wrong: its export, it:first or it:spoils or ")
    assert lines[-1].endswith("onnx.reference is right before it:spoils and wrong after it, so it:spoils is wrong")
    small = reduce(suspect, found)
    assert small is not None
    assert len(small.piece.nodes) == 1


def test_what_only_the_whole_program_shows_is_said_with_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(model: onnx.ModelProto) -> onnx.ModelProto:
        if len(model.graph.node) > 2:
            for node in model.graph.node:
                if node.op_type == "HardSigmoid":
                    node.attribute[0].f += 0.1
        return model

    made = Transformation("it:joins", lambda model, samples: spoil(model), "onnx", ("onnx",))
    monkeypatch.setitem(TRANSFORMATIONS, "it:joins", made)
    found = localise(Suspect.of(cell(_GATED, runtime="onnx.reference", transforms=("it:joins",))), window=1)
    assert found.first is None
    assert list(found.lines())[-1].endswith(
        "a pass that joins operators, what it:joins makes of several operators (try --transforms none), or the "
        "runtime's optimiser (try --runtimes onnxruntime)."
    )


# --- the process ------------------------------------------------------------------------------------------------------


class _OfItsOwnError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def test_a_process_holds_several_sessions_and_passes_on_what_happens() -> None:
    isolated = IsolatedRuntime(LyingRuntime(lambda output: output * 2))
    x = np.ones((2, 3), np.float32)
    first = isolated.load(one_node("Elu", 18), Device.CPU)
    second = isolated.load(one_node("LeakyRelu", 18, alpha=0.5), Device.CPU)
    for session, value in ((second, -1.0), (first, 2.0), (second, -1.0)):
        (output,) = session.run({"x": x if value > 0 else -x})
        assert isinstance(output, np.ndarray)
        assert output.tolist() == np.full((2, 3), value).tolist()
    with pytest.raises(Exception, match=r"INVALID_PROTOBUF|Protobuf parsing failed"):
        isolated.load(b"no model", Device.CPU)
    (output,) = first.run({"x": x})
    assert isinstance(output, np.ndarray)


def test_what_a_runtime_writes_into_its_inputs_and_its_own_errors_come_back() -> None:
    def spoil(session: Session) -> Session:
        class Writing:
            def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
                x = feeds["x"]
                assert isinstance(x, np.ndarray)
                if x[0, 0] == 7.0:
                    raise _OfItsOwnError("this", "that")
                x[...] = 7.0
                return [x]

        return Writing()

    session = IsolatedRuntime(Faulty(spoil)).load(one_node("HardSigmoid", 18), Device.CPU)
    x = np.zeros((2, 3), np.float32)
    session.run({"x": x})
    assert (x == 7.0).all()
    with pytest.raises(RemoteError, match="_OfItsOwnError: this and that"):
        session.run({"x": x})


def test_a_runtime_that_does_not_end_is_ended() -> None:
    def hang(session: Session) -> Session:
        signal.pause()
        return session

    isolated = IsolatedRuntime(Faulty(hang), seconds=0.1)
    with pytest.raises(RuntimeEndedError, match=r"the process of faulty did not end within 0.1 s and was killed"):
        isolated.load(one_node("HardSigmoid", 18), Device.CPU)
    assert isolated.load(one_node("Elu", 18), Device.CPU) is not None
