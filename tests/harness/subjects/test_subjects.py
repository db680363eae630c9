"""Plug-ins of the axes: backends, exporters by their function, ways of capture, and missing ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

from onnx_parity.harness.axes import AxisError, Capture, Device, Selection, parse_exporters, parse_runtimes
from onnx_parity.harness.case import Declaration, floats, op
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.runtimes import RUNTIMES

_ELU = op(F.elu, floats(2, 3), dynamic={"x": {0: "batch"}})
_SCALED = op(lambda x, y: x - 2 * y, floats(2, 3), floats(3))
_POOLED = op(lambda x: F.avg_pool2d(x.relu(), 2), floats(1, 2, 4, 4), dynamic={"x": {0: "batch"}})
_LOOP = op(lambda x: x / x.sum(), floats(2, 3))


def outcomes(declaration: Declaration, selection: Selection) -> list[Outcome]:
    bench = Bench(0)
    return [bench.run(cell) for cell in cells_of("case", declaration, selection)]


def only(found: list[Outcome]) -> Outcome:
    (outcome,) = found
    return outcome


def at(opset: int, **axes: object) -> Selection:
    return Selection(opsets=(opset,), devices=(Device.CPU,), **axes)  # type: ignore[arg-type]  # by name


# --- runtimes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout"])
def test_onnxruntime_runs_at_every_level_of_its_optimiser(level: str) -> None:
    outcome = only(outcomes(_SCALED, at(13, runtimes=(f"onnxruntime:{level}",))))
    assert (outcome.status, outcome.cell.id) == (
        Status.PASSED,
        f"case-float32-opset13-cpu-trace-onnxruntime:{level}",
    )


def test_a_level_is_the_one_that_the_session_has() -> None:
    from onnx_parity.harness.subjects.runtimes import _session_options

    names = {level: _session_options(level).graph_optimization_level.name for level in ("none", "basic", "extended")}
    assert names == {"none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
    assert _session_options("").graph_optimization_level.name == "ORT_ENABLE_ALL"


#: Real backends of other people, each with an opset that it runs.
_BACKENDS = [("onnxruntime.backend", 18), ("jaxonnxruntime.backend", 14)]


@pytest.mark.parametrize(("module", "opset"), _BACKENDS)
def test_a_real_backend_is_a_runtime(module: str, opset: int) -> None:
    pytest.importorskip(module)
    runtime = f"backend:{module}"
    assert RUNTIMES[runtime].missing(Device.CPU) == ""
    for declaration in (_POOLED, _SCALED):
        for outcome in outcomes(declaration, at(opset, runtimes=(runtime,))):
            assert (outcome.status, outcome.reason) == (Status.PASSED, "")
            assert outcome.runtime == runtime


def test_what_a_real_backend_has_no_kernel_for_is_absent_and_not_run_elsewhere() -> None:
    pytest.importorskip("jaxonnxruntime.backend")
    outcome = only(outcomes(op(F.relu, floats(2, 3)), at(13, runtimes=("backend:jaxonnxruntime.backend",))))
    assert (outcome.status, outcome.runtime) == (Status.ABSENT, "backend:jaxonnxruntime.backend")
    assert outcome.reason.startswith(
        "backend:jaxonnxruntime.backend has no kernel: Relu version 13 is not implemented."
    )


class _Rep:
    """Evaluates with onnx.reference, and distorts."""

    def __init__(self, model: onnx.ModelProto, lie: Callable[[object], object]) -> None:
        self._evaluator = onnx.reference.ReferenceEvaluator(model)
        self._lie = lie

    def run(self, inputs: list[object]) -> tuple[object, ...]:
        feeds = dict(zip(self._evaluator.input_names, inputs, strict=True))
        return tuple(map(self._lie, self._evaluator.run(None, feeds)))


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a module importable for one test."""

    def plug(name: str, **members: object) -> str:
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        return name

    return plug


def test_a_backend_that_is_wrong_is_blamed(plugged: Callable[..., str]) -> None:
    plugged(
        "plugged_wrong",
        prepare=lambda model, device: _Rep(model, lambda output: np.asarray(output) * np.float32(1.5)),
        supports_device=lambda device: device == "CPU",
    )
    outcome = only(outcomes(_SCALED, at(13, runtimes=("backend:plugged_wrong",))))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.RUNTIME)
    assert outcome.details[-1].endswith("onnxruntime agrees with torch, so backend:plugged_wrong is wrong")
    assert RUNTIMES["backend:plugged_wrong"].missing(Device.CUDA) == "backend:plugged_wrong does not support CUDA"


def test_an_output_that_is_not_an_array_is_reported(plugged: Callable[..., str]) -> None:
    plugged(
        "plugged_lists",
        prepare=lambda model, device: _Rep(model, lambda output: np.asarray(output).tolist()),
        supports_device=lambda device: True,
    )
    outcome = only(outcomes(_SCALED, at(13, runtimes=("backend:plugged_lists",))))
    assert (outcome.status, outcome.reason) == (
        Status.FAILED,
        "output 0 is list from the runtime, a tensor from torch",
    )


@pytest.mark.parametrize(
    ("name", "members", "reason"),
    [
        (
            "caffe2.python.onnx.backend",
            None,
            "caffe2.python.onnx.backend cannot be imported: ModuleNotFoundError: No module named 'caffe2'",
        ),
        (
            "plugged_without",
            {"prepare": lambda model, device: None},
            "plugged_without is not an ONNX backend: it has no supports_device()",
        ),
    ],
)
def test_a_backend_that_cannot_serve_is_missing_with_the_reason(
    plugged: Callable[..., str], name: str, members: dict[str, object] | None, reason: str
) -> None:
    if members is not None:
        plugged(name, **members)
    outcome = only(outcomes(_SCALED, at(13, runtimes=(f"backend:{name}",))))
    assert (outcome.status, outcome.reason) == (Status.ABSENT, reason)


@pytest.mark.parametrize("text", ["onnxruntme", "backend:", "backend:os path", "onnxruntime:fast"])
def test_a_runtime_that_is_neither_known_nor_a_backend_is_refused(text: str) -> None:
    with pytest.raises(AxisError) as refused:
        parse_runtimes(text)
    assert str(refused.value) == (
        f"--runtimes {text}: there is no {text!r}, only onnxruntime, onnxruntime:none, onnxruntime:basic, "
        "onnxruntime:extended, onnxruntime:layout, onnxruntime:openvino, onnxruntime:tensorrt, onnx.reference, "
        "openvino, tract, tinygrad, emx, iree, tvm, jaxonnxruntime, opencv, and backend:module."
    )


# --- exporters --------------------------------------------------------------------------------------------------------


def test_any_function_that_is_called_as_torch_onnx_export_is_a_subject() -> None:
    static, dynamic = outcomes(_ELU, at(18, exporters=("onnx_parity:export",)))
    assert (static.status, dynamic.status) == (Status.PASSED, Status.PASSED)
    assert dynamic.cell.id == "case-float32-opset18-cpu-trace-onnxruntime-onnx_parity:export-dynamic"
    assert "rerun_sizes" in dynamic.seconds


def test_what_a_plugged_exporter_gets_wrong_is_its_fault(plugged: Callable[..., str]) -> None:
    import onnx_parity

    def halved(program: Callable[..., torch.Tensor], inputs: object, path: Path, **named: object) -> None:
        onnx_parity.export(lambda *tensors: program(*tensors) / 2, inputs, path, **named)  # type: ignore[arg-type]

    def refused(program: object, inputs: object, path: Path, **named: object) -> None:
        raise NotImplementedError("this exporter knows no operators")

    plugged("plugged_exporter", halved=halved, refused=refused)
    wrong = only(outcomes(_SCALED, at(13, exporters=("plugged_exporter:halved",))))
    assert (wrong.status, wrong.stage, wrong.blame) == (Status.FAILED, Stage.COMPARE, Blame.EXPORTER)
    declined = only(outcomes(_SCALED, at(13, exporters=("plugged_exporter:refused",))))
    assert (declined.status, declined.reason) == (Status.UNSUPPORTED, "this exporter knows no operators")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "no_package:export",
            "no_package cannot be imported: ModuleNotFoundError: No module named 'no_package'",
        ),
        ("onnx_parity:exports", "onnx_parity has no exports"),
        ("onnx_parity:__name__", "onnx_parity:__name__ is not a function but str"),
    ],
)
def test_an_exporter_that_is_not_there_is_missing_with_the_reason(name: str, reason: str) -> None:
    outcome = only(outcomes(_SCALED, at(13, exporters=(name,))))
    assert (outcome.status, outcome.reason) == (Status.ABSENT, reason)


def test_an_exporter_that_is_neither_known_nor_a_function_is_refused() -> None:
    with pytest.raises(AxisError) as refused:
        parse_exporters("parity,torch_dynmo")
    assert str(refused.value) == (
        "--exporters parity,torch_dynmo: there is no 'torch_dynmo', only parity, torch_dynamo, torch_script, "
        "transformers, and module:function."
    )


# --- ways in ----------------------------------------------------------------------------------------------------------


def captures(*exporters: str) -> set[tuple[str, Capture]]:
    selection = Selection(opsets=(18,), exporters=exporters, captures=tuple(Capture))
    return {(cell.exporter, cell.capture) for cell in cells_of("case", _SCALED, selection)}


def test_each_of_torchs_exporters_has_two_ways_in() -> None:
    trace, script, exported = Capture
    assert captures("parity") == {("parity", trace), ("parity", script), ("parity", exported)}
    assert captures("torch_dynamo", "torch_script") == {
        ("torch_dynamo", trace),
        ("torch_dynamo", exported),
        ("torch_script", trace),
        ("torch_script", script),
    }


@pytest.mark.slow
def test_an_exported_program_is_what_the_exporter_is_given() -> None:
    pytest.importorskip("onnxscript")
    outcome = only(outcomes(_SCALED, at(18, exporters=("torch_dynamo",), captures=(Capture.EXPORTED_PROGRAM,))))
    assert outcome.status is Status.PASSED
    assert outcome.cell.id == "case-float32-opset18-cpu-exported_program-onnxruntime-torch_dynamo"


def test_a_case_is_scripted_with_its_inputs_by_name_and_its_attributes_written_out() -> None:
    for declaration in (
        op(F.elu, floats(2, 3), alpha=[0.5]),
        op(F.avg_pool2d, floats(1, 2, 4, 4), kernel_size=(2, 1), ceil_mode=True),
        op(torch.add, floats(2, 3), other=floats(3), alpha=2),
        op(torch.nn.BatchNorm1d, floats(2, 3), num_features=3),
    ):
        outcome = only(outcomes(declaration, at(18, captures=(Capture.SCRIPT,))))
        assert (outcome.status, outcome.reason) == (Status.PASSED, "")
        assert outcome.cell.id.endswith("-script-onnxruntime")


def test_a_case_that_torch_cannot_script_is_absent_and_no_fault_of_the_exporter() -> None:
    outcome = only(outcomes(_LOOP, at(18, captures=(Capture.SCRIPT,))))
    assert outcome.status is Status.ABSENT
    assert outcome.reason.startswith("torch cannot make a script of it: ")


def test_a_decorated_function_has_no_scripted_form() -> None:
    """torch scripts what is decorated: another function, whose results would be held against the exporter."""
    outcome = only(outcomes(op(torch.vmap(torch.sin), floats(2, 3)), at(18, captures=(Capture.SCRIPT,))))
    assert outcome.status is Status.ABSENT
    assert outcome.reason == (
        "torch cannot make a script of it: torch.jit.script compiles the function inside of a decorator without the "
        "decorator"
    )


def test_ids_of_plugged_subjects_are_each_their_own() -> None:
    names = ("onnxruntime", "onnxruntime:none", "backend:onnxruntime.backend")
    ids = [cell.id for cell in cells_of("case", _ELU, at(18, runtimes=names))]
    assert len(ids) == len(set(ids)) == 2 * len(names)


def test_a_cell_of_a_plugged_runtime_is_an_ordinary_cell() -> None:
    cell = next(cells_of("case", _ELU, at(18, runtimes=("backend:onnxruntime.backend",))))
    assert isinstance(cell, Cell)
    assert cell.id == "case-float32-opset18-cpu-trace-backend:onnxruntime.backend"
