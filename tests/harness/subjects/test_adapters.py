"""Runtimes of other projects: those that are installed run a model, and what any of them may do wrong is caught."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch.nn.functional as F
from msgspec.structs import replace

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import ADAPTERS, OPSETS, RUNTIME_NAMES, Device, Dtype, Selection
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.judging.outcome import Outcome, blank_record
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import RUNTIMES, OnnxRuntime, every_runtime
from tests.harness.fakes import FakeExporter, cell, one_node

_ELU = op(F.elu, floats(2, 3))


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_runtime_that_is_installed_runs_a_model(name: str) -> None:
    runtime = RUNTIMES[name]
    if reason := runtime.missing(Device.CPU):
        pytest.skip(reason)
    opset = 17 if name == "iree" else 13
    x = np.array([[-1.0, 0.0, 2.0]], np.float32)
    (output,) = runtime.load(one_node("LeakyRelu", opset, (1, 3), alpha=0.5), Device.CPU).run({"x": x})
    assert isinstance(output, np.ndarray)
    assert (output.dtype, output.tolist()) == (np.float32, [[-0.5, 0.0, 2.0]])


def test_every_name_is_a_runtime_that_says_what_it_claims() -> None:
    for name, runtime in zip(RUNTIME_NAMES, every_runtime(), strict=True):
        assert runtime.name == name
        assert set(runtime.opsets) <= set(OPSETS)
        assert Dtype.FLOAT32 in runtime.dtypes
        assert runtime.packages


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_short(name: str) -> None:
    file = sys.modules[type(RUNTIMES[name]).__module__].__file__
    assert file is not None
    assert len(Path(file).with_name(f"{name}.py").read_text().splitlines()) < 60


def _run(
    after: Callable[[list[object]], Sequence[object]] = lambda outputs: outputs,
    before: Callable[[Mapping[str, Fed]], Mapping[str, Fed] | None] = lambda feeds: None,
    *,
    module: str = "onnx",
    opset: int = 18,
    dtype: Dtype = Dtype.FLOAT32,
) -> Outcome:
    def load(model: bytes | Path) -> Run:
        """onnxruntime, which does something else before or after."""
        session = OnnxRuntime().load(model, Device.CPU)

        def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
            given = before(feeds)
            outputs = list(session.run(feeds if given is None else given))
            return after(outputs)

        return run

    adapter = Adapter(
        name="fake",
        modules={"fake-runtime": module},
        opsets=(17, 18),
        dtypes=USUAL_DTYPES,
        open=load,
        is_refusal=saying("is not supported"),
        tracker="",
    )
    bench = Bench(0, exporters={"parity": FakeExporter(_elu)}, runtimes={"fake": adapter})
    return bench.run(cell(_ELU, runtime="fake", opset=opset, dtype=dtype))


def _elu(opset: int, request: object) -> bytes:
    return one_node("Elu", opset)


def test_a_runtime_that_does_as_it_should_passes() -> None:
    assert _run().status is Status.PASSED


def test_a_runtime_that_is_not_installed_is_absent_and_says_how_to_get_it() -> None:
    outcome = _run(module="there_is_no_such_module")
    assert (outcome.status, outcome.declined) == (Status.ABSENT, False)
    assert outcome.reason == "fake-runtime is not installed: pip install fake-runtime"


def test_every_distribution_that_is_missing_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_parity.harness.subjects.adapters.adapter.find_spec", lambda module: None)
    needed = {
        "openvino": ["openvino"],
        "tract": ["tract"],
        "tinygrad": ["tinygrad"],
        "emx": ["emx-onnx-cgen"],
        "iree": ["iree-base-compiler", "iree-base-runtime"],
        "tvm": ["apache-tvm"],
        "jaxonnxruntime": ["jaxonnxruntime", "jax", "absl-py"],
        "opencv": ["opencv-python-headless"],
    }
    assert {name: RUNTIMES[name].missing(Device.CPU) for name in ADAPTERS} == {
        name: f"{' and '.join(packages)} {'are' if packages[1:] else 'is'} not installed: "
        f"pip install {' '.join(packages)}"
        for name, packages in needed.items()
    }


def test_what_a_missing_runtime_says_to_install_is_in_the_extra() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    offered = {re.split("[<>=]", each)[0] for extra in ("runtimes", "backends") for each in extras[extra]}
    for name in ADAPTERS:
        assert set(RUNTIMES[name].packages) <= offered


def test_what_it_does_not_claim_it_is_not_asked_for() -> None:
    older = _run(opset=16)
    assert (older.status, older.declined, older.reason) == (Status.ABSENT, True, "fake runs opsets 17 to 18")
    half = _run(dtype=Dtype.FLOAT16)
    assert (half.declined, half.reason) == (True, "fake does not claim to support float16")


def test_an_error_that_says_that_it_is_not_supported_is_a_refusal_and_another_a_failure() -> None:
    def refuse(outputs: list[object]) -> Sequence[object]:
        raise RuntimeError("Elu is not supported")

    def fail(outputs: list[object]) -> Sequence[object]:
        raise RuntimeError("out of luck")

    refused, failed = _run(refuse), _run(fail)
    assert (refused.status, refused.declined) == (Status.ABSENT, True)
    assert refused.reason == "fake has no kernel: Elu is not supported"
    assert (failed.status, failed.stage, failed.blame) == (Status.FAILED, Stage.RUN, Blame.RUNTIME)
    assert failed.reason == "RuntimeFailedError: RuntimeError: out of luck"


def test_a_runtime_that_cannot_be_imported_is_absent() -> None:
    def fail(model: bytes | Path) -> Run:
        raise ImportError("libfake.so is missing")

    adapter = Adapter("fake", {"fake": "onnx"}, (18,), USUAL_DTYPES, fail, saying(), "")
    bench = Bench(0, exporters={"parity": FakeExporter(_elu)}, runtimes={"fake": adapter})
    outcome = bench.run(cell(_ELU, runtime="fake"))
    assert (outcome.status, outcome.declined) == (Status.ABSENT, False)
    assert outcome.reason == "fake cannot be imported: libfake.so is missing"


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (lambda outputs: [each.astype(np.float64) for each in outputs], "output 0 is float64 from the runtime"),
        (lambda outputs: [], "0 outputs from the runtime, 1 output from torch"),
        (lambda outputs: [*outputs, *outputs], "2 outputs from the runtime, 1 output from torch"),
        (lambda outputs: [each[None] for each in outputs], "output 0 has shape (1, 2, 3) from the runtime"),
        (lambda outputs: [each.tolist() for each in outputs], "output 0 is list from the runtime"),
    ],
)
def test_what_it_returns_is_not_adapted(after: Callable[[list[object]], Sequence[object]], reason: str) -> None:
    outcome = _run(after)
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.RUNTIME)
    assert outcome.reason.startswith(reason)


def test_a_runtime_that_computes_its_inputs_in_another_dtype_is_caught() -> None:
    def in_half(feeds: Mapping[str, Fed]) -> Mapping[str, Fed]:
        x = feeds["x"]
        assert isinstance(x, np.ndarray)
        return {"x": x.astype(np.float16).astype(np.float32)}

    outcome = _run(before=in_half)
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.COMPARE)
    assert outcome.blame in (Blame.RUNTIME, Blame.PRECISION)


def test_a_runtime_that_writes_into_its_inputs_is_caught_and_the_inputs_are_restored() -> None:
    def write(feeds: Mapping[str, Fed]) -> None:
        x = feeds["x"]
        assert isinstance(x, np.ndarray)
        x[...] = 7.0

    outcome = _run(before=write)
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.RUN)
    assert outcome.reason == "ChangedInputError: fake wrote into its inputs: x"
    assert outcome.prepared is not None
    x = outcome.prepared.reference.example.feeds["x"]
    assert isinstance(x, np.ndarray)
    assert (x != 7.0).all()


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_further_runtime_changes_no_cell_of_another(alpha: float) -> None:
    """Whether the exported model is right or wrong, and whatever the other runtime does to what they share."""

    class Spoiling:
        def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
            for fed in feeds.values():
                assert isinstance(fed, np.ndarray)
                fed[...] = 7.0
            raise RuntimeError("out of luck")

    def records(*names: str) -> dict[str, Record]:
        spoiling = Adapter("bad", {"bad": "onnx"}, OPSETS, USUAL_DTYPES, lambda model: Spoiling().run, saying(), "")
        runtimes: dict[str, Runtime] = {"onnxruntime": OnnxRuntime(), "bad": spoiling}
        exporter = FakeExporter(lambda opset, request: one_node("Elu", opset, alpha=alpha))
        bench = Bench(0, exporters={"parity": exporter}, runtimes=runtimes)
        selection = Selection(opsets=(13, 18), devices=(Device.CPU,), runtimes=names)
        return {
            each.id: replace(bench.run(each).onto(blank_record(each, "", "", worker="")), seconds={}, export_cpu=0.0)
            for each in cells_of("case", _ELU, selection)
        }

    alone, together = records("onnxruntime"), records("bad", "onnxruntime")
    assert len(alone) == 2
    assert {record.status for record in alone.values()} == {Status.PASSED if alpha == 1.0 else Status.FAILED}
    assert {cell: together[cell] for cell in alone} == alone
    assert len(together) == 4
