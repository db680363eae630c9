"""An export leaves the module, torch and other threads unchanged, whether it succeeds or fails."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import Classifier, assert_agrees, images


class Fails(nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.inner = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
        self.inner[0].eval()
        self.cache: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.cache = x * 2
        raise ValueError("no good")


def test_failure_names_the_line_and_restores() -> None:
    model = Fails()
    count = model.count
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(model, (torch.ones(2),))
    line = Fails.forward.__code__.co_firstlineno + 3
    assert str(caught.value) == (
        f"the program failed while it was recorded at {__file__}:{line}: ValueError: no good\n"
        "Call it with the same arguments without exporting. If it fails there too, correct it there first. "
        "If not, it does something that is not possible with fake tensors (numpy, .data_ptr(), a C extension)."
    )
    assert isinstance(caught.value.__cause__, ValueError)
    assert model.count is count and torch.equal(count, torch.zeros(2)) and model.cache is None
    assert [module.training for module in model.modules()] == [True, True, False, True]


def test_failure_says_which_argument_is_an_array() -> None:
    with pytest.raises(onnx_parity.errors.ProgramFailedError) as caught:
        onnx_parity.export(nn.Linear(2, 3), (torch.ones(1, 2).numpy(),))
    assert str(caught.value).endswith(
        "must be Tensor, not numpy.ndarray\nThe argument 'input' is a numpy array, and operators of PyTorch take "
        "tensors: give torch.from_numpy(input) as the example."
    )


@pytest.mark.parametrize(
    ("training", "dropped"), [(False, False), (True, True), (torch.onnx.TrainingMode.PRESERVE, True)]
)
def test_mode_of_every_part_is_restored(training: object, dropped: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Sequential(nn.ReLU()).eval())
    modes = [module.training for module in model.modules()]
    capture = onnx_parity.capture_program(model, (torch.ones(1, 3),), training=training)
    assert [module.training for module in model.modules()] == modes
    assert any("dropout" in operator for operator in capture.operators) is dropped


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_weights_that_hooks_recompute() -> None:
    model = torch.nn.utils.weight_norm(nn.Linear(3, 2))
    weight = model.weight
    program = onnx_parity.export(model, (torch.ones(1, 3),))
    assert model.weight is weight
    assert_agrees(program, model, torch.rand(2, 3)[:1])


class AddsHooks(nn.Module):
    """As models of transformers do that are asked for the results of their layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.once = self.layer.register_forward_hook(lambda _module, _inputs, result: result + 1)
        self.has_hooks = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.has_hooks:
            self.layer.register_forward_hook(lambda _module, _inputs, result: result * 2)
            self.layer.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 3,))
            self.has_hooks = True
        self.once.remove()
        result: torch.Tensor = self.layer(x)
        return result


def test_hooks_that_the_program_adds_and_removes() -> None:
    model = AddsHooks()
    program = onnx_parity.export(model, (torch.ones(2, 3),))
    assert not model.has_hooks and len(model.layer._forward_hooks) == 1 and not model.layer._forward_pre_hooks
    assert_agrees(program, model, torch.randn(2, 3))


def test_torch_is_as_it_was() -> None:
    def state() -> tuple[object, ...]:
        return (
            torch.autograd.Function.__dict__["apply"],
            torch.Tensor.__dict__.get("numpy"),
            torch.Tensor.__dict__.get("tolist"),
            torch.backends.mha.get_fastpath_enabled(),
            torch.is_autocast_cache_enabled(),
            torch.is_grad_enabled(),
            torch.get_num_threads(),
        )

    before = state()
    onnx_parity.export(Classifier(), (images(),)).serialize()
    with pytest.raises(onnx_parity.CaptureError):
        onnx_parity.export(Fails(), (torch.ones(2),))
    assert state() == before
    assert torch.ones(2).numpy().tolist() == torch.ones(2).tolist() == [1.0, 1.0]


def test_threads_export_at_once() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            model = Classifier().eval()
            axes = {"input": {0: "batch"}} if number % 2 else None
            program = onnx_parity.export(model, (images(),), opset_version=9 + 3 * number, dynamic_axes=axes)
            assert_agrees(program, model, images())
        except BaseException as error:  # noqa: BLE001 (what a thread raises is lost)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.filterwarnings("error::onnx_parity.exporter.errors.OnnxExporterWarning")
def test_errors_are_caught_by_the_names_of_torch_onnx() -> None:
    with pytest.raises(onnx_parity.OnnxExporterError, match="the program failed while it was recorded"):
        onnx_parity.export(Fails(), (torch.ones(2),))
    with pytest.raises(onnx_parity.errors.UnsupportedOperatorError, match="aten::relu: ONNX's Cast does not take"):
        onnx_parity.export(torch.relu, (torch.ones(2).bfloat16(),), opset_version=9)
    with pytest.raises(onnx_parity.errors.SymbolicValueError, match="Add takes 2 inputs"):
        onnx_parity.export(
            torch.relu, (torch.ones(2),), custom_translation_table={"aten::relu": lambda g, x: g.op("Add", x)}
        )
    with pytest.raises(onnx_parity.errors.OnnxExporterWarning, match="turned a tensor into a Python value"):
        onnx_parity.export(lambda x: x * float(x.numpy().sum()), (torch.ones(2),))


def test_torchvision_has_its_own_functions_again() -> None:
    from onnx_parity.model_zoo.torchvision_import import torchvision

    poolers = vars(torchvision.ops.poolers)
    before = torchvision._is_tracing
    asked: list[bool] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        asked.append(torchvision._is_tracing is before)
        return x + 1

    onnx_parity.export(program, (torch.ones(2),))
    assert asked == [False]
    assert torchvision._is_tracing is before
    assert "len" not in poolers
