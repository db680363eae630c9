"""Verification runs copies: it neither writes to nor converts the user's module, which may be in use."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.verification.module_copy import Weights, copied
from tests.exporter.subjects import Counter

X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)


class Layers(nn.Module):
    """Layers that compare dtypes before they compute, state of every kind, and tensors of the default dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 3, 3, padding=1)
        self.normalisation = nn.BatchNorm1d(3)
        self.recurrent = nn.LSTM(4, 4, batch_first=True)
        self.scale = torch.full((4,), 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.normalisation(self.convolution(x))
        start = torch.zeros(1, x.shape[0], 4)
        result: torch.Tensor = self.recurrent(x, (start, start))[0] * self.scale
        return result


def parts(module: nn.Module) -> list[int]:
    """The identity of everything that a module and its parts hold."""
    held = [value for part in module.modules() for value in vars(part).values()]
    kept = [value for container in held if isinstance(container, (dict, list)) for value in tuple(container)]
    return [*map(id, held), *map(id, kept), *map(id, module.parameters()), *map(id, module.buffers())]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns a hundred times as often as they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("training", [False, True])
def test_other_threads_may_call_the_module_while_it_is_verified(training: bool) -> None:
    model = Layers().eval()
    program = onnx_parity.export(
        model, X, input_names=["x"], dynamic_axes={"x": {0: "batch"}}, training=training, opset_version=13
    )
    expected, before = model(X), parts(model)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    verified = threading.Event()
    faults: list[object] = []
    calls = 0

    def call() -> None:
        nonlocal calls
        while not verified.is_set():
            try:
                result = model(X)
            except Exception as error:  # noqa: BLE001  Whatever it is, the test is to show it.
                faults.append(error)
                return
            calls += 1
            if result.dtype is not torch.float32 or not torch.equal(result, expected):
                faults.append(result)
            if parts(model) != before or model.training or torch.get_default_dtype() is not torch.float32:
                faults.append("the module has other parts, or another mode")

    thread = threading.Thread(target=call)
    thread.start()
    try:
        program.verify()
    finally:
        verified.set()
        thread.join()
    assert faults == []
    # Calls were made all the while. How many there are depends on the machine and on how long the verification takes.
    assert calls > 5
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_a_copy_shares_parameters_and_nothing_that_is_written() -> None:
    model = Layers()
    copy = copied(model)
    pairs = [*zip(copy.parameters(), model.parameters(), strict=True)]
    assert all(mine is not own and mine.data_ptr() == own.data_ptr() for mine, own in pairs)
    owned = {id(part) for part in model.modules()} | {id(buffer) for buffer in model.buffers()} | {id(model.scale)}
    others = {id(part) for part in copy.modules()} | {id(buffer) for buffer in copy.buffers()} | {id(copy.scale)}
    assert not owned & others
    assert torch.equal(copy(X), model(X))


def test_weights_in_another_dtype_are_those_that_recurrent_layers_list_again() -> None:
    model = Layers().eval()
    copy = copied(model, Weights(model, torch.float64))
    assert {each.dtype for each in copy.parameters()} == {torch.float64}
    assert {getattr(each, "dtype", None) for each in copy.recurrent._flat_weights} == {torch.float64}
    assert copy.convolution(X.double()).dtype is torch.float64
    assert copy.recurrent(X.double())[0].dtype is torch.float64
    assert {each.dtype for each in model.parameters()} == {torch.float32}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("freeze", [False, True])
def test_compiled_modules(freeze: bool) -> None:
    script = torch.jit.script(nn.Sequential(nn.Conv1d(3, 3, 3), nn.BatchNorm1d(3)).eval())
    model = nn.Sequential(torch.jit.freeze(script) if freeze else script, nn.ReLU())
    assert torch.equal(copied(model)(X), model(X))
    if not freeze:
        torch.testing.assert_close(copied(model, Weights(model, torch.float64))(X.double()).float(), model(X))
        assert {each.dtype for each in model.parameters()} == {torch.float32}


class Counted(nn.Module):
    """Counts its calls in a buffer, by way of what is given."""

    count: torch.Tensor

    def __init__(self, way: Callable[[Any], Any]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.way = way(self)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count

    def forward(self, x: torch.Tensor) -> Any:
        return self.way(x)


@pytest.mark.parametrize(
    "way",
    [
        lambda module: module.step,
        lambda module: functools.partial(Counted.step, module),
        lambda module: lambda x: module.step(x) + 0,
        lambda module: functools.wraps(module.step)(lambda x: module.step(x) + 0),
    ],
    ids=["bound method", "partial", "closure", "wrapper"],
)
def test_functions_of_a_module_lead_to_its_copy(way: Callable[[Any], Any]) -> None:
    model = Counted(way)
    assert torch.equal(copied(model)(X), X + 1)
    assert model.get_buffer("count") == 0


def test_hooks_and_assigned_forwards_lead_to_the_copy() -> None:
    model = Counter()
    seen: list[nn.Module] = []
    model.register_forward_hook(lambda module, args, output: seen.append(module))
    inner = model.forward
    model.forward = lambda x: inner(x) + 0  # type: ignore[method-assign]
    copy = copied(model)
    copy(X)
    assert seen == [copy]
    assert model.count == 0


def test_what_cannot_be_copied_is_shared() -> None:
    model = nn.Linear(4, 4)
    lock, result = threading.Lock(), model(X)
    vars(model).update(lock=lock, result=result)
    copy = vars(copied(model))
    assert copy["lock"] is lock
    assert torch.equal(copy["result"], result) and copy["result"] is not result


def test_strides_are_those_of_the_original() -> None:
    model = nn.Module()
    model.register_buffer("gaps", torch.empty_strided((2, 3), (8, 2)).zero_())
    assert copied(model).get_buffer("gaps").stride() == (8, 2)


class Descending(nn.Module):
    """A module whose attribute is a function that calls itself, and so closes over itself."""

    def __init__(self) -> None:
        super().__init__()

        def halved(x: torch.Tensor, times: int) -> torch.Tensor:
            return x if times == 0 else halved(x / 2, times - 1)

        self.halved = halved

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.halved(x, 3)


def test_functions_may_close_over_themselves() -> None:
    assert torch.equal(copied(Descending())(X), X / 8)
