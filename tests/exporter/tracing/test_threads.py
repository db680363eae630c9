"""Exports in several threads at once give the same results, and do not affect other threads or torch.

"Alone" is what the same programs give before any other thread is there.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.patches.higher_order import FUNCTIONS, OPERATORS
from onnx_parity.exporter.torch_inside.dynamo import SettingsReadLater
from onnx_parity.exporter.torch_inside.imports import StandIn
from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode
from onnx_parity.exporter.torch_inside.torchscript import ScriptFunction, ScriptMethod
from tests.exporter.subjects import Classifier, images
from tests.thinned import one_in


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] / 2


halved: Callable[[torch.Tensor], torch.Tensor] = Halved.apply


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return result


class Looks(nn.Module):
    """Reads constants in Python, and applies an autograd function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = halved(x) * sum(torch.arange(3.0).tolist()) + float(torch.ones(2).numpy().sum())
        return result


class Recurrent(nn.Module):
    """Compiling it, TorchScript reads the source of the check that an export replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.lstm(x)[0]
        return output


@torch.jit.script
def loop(x: torch.Tensor) -> torch.Tensor:
    while bool(x.abs().sum() > 1):
        x = x * 0.5
    return x


class CallsScript(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = loop(x)
        return result


MODULES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(8, 4),
    "attention": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
    "convolutions": lambda: Classifier().eval(),
    "branches": Branches,
    "script": CallsScript,
    "reads": Looks,
}
X = torch.linspace(-1, 1, 48).reshape(2, 3, 8)


def made(name: str) -> nn.Module:
    """A module of the same weights each time: no two threads may record one module at the same time.

    (torch's generator of random numbers is the same for all threads.)
    """
    module = MODULES[name]()
    for number, weight in enumerate((*module.parameters(), *module.buffers())):
        if weight.is_floating_point():
            weight.data = (torch.arange(weight.numel()) + number).sin().abs().reshape(weight.shape)
    return module


def exported(name: str) -> bytes:
    options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0]}} if name == "lstm" else {}
    return onnx_parity.export(made(name), (images() if name == "convolutions" else X,), **options).serialize()


def trained() -> list[float]:
    """The losses of a few steps that use what an export puts something else in the place of."""
    lstm, attention = made("lstm"), made("attention")
    parallel = nn.DataParallel(lstm)
    parameters = [*lstm.parameters(), *attention.parameters()]
    losses = []
    packed = nn.utils.rnn.pack_padded_sequence(X.transpose(0, 1), torch.tensor([3, 2]))
    for _ in range(2):
        loss = halved(parallel(attention(X))[0]).square().mean() + lstm(packed)[0].data.sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.01 * gradient
        losses.append(loss.item())
    return losses


class Operators(TorchDispatchMode):
    """Remembers which operators this thread calls."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.called: list[Any] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import dynamo to skip it.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(func)
        return func(*args, **(kwargs or {}))


def called() -> tuple[Any, ...]:
    """What torch itself answers, and how it computes, in a thread that exports nothing."""
    with torch.no_grad():
        with Operators() as operators:
            attended = made("attention")(X)
        return (
            torch.ops.aten._transformer_encoder_layer_fwd.default in operators.called,
            torch.backends.mha.get_fastpath_enabled(),
            torch.is_autocast_cache_enabled(),
            torch.onnx.is_in_onnx_export(),
            bool(torch._C._get_tracing_state()),
            torch.is_grad_enabled(),
            round(attended.sum().item(), 1),  # The order of a sum in several threads changes its last digits.
            loop(X).tolist(),
            torch.equal(torch.from_numpy(Looks()(X).numpy()), X / 2 * 3 + 2),
            what_refuses_a_wrong_state(),
        )


def what_refuses_a_wrong_state() -> str:
    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 8)])
    with pytest.raises(RuntimeError) as caught:
        nn.RNN(8, 4)(packed, torch.ones(1, 1, 5))
    return str(caught.value)


# --- torch as it is ---------------------------------------------------------------------------------------------------

_CLASSES: tuple[Any, ...] = (
    torch.Tensor, torch.autograd.Function, nn.RNNBase, nn.LSTM, nn.DataParallel, nn.parallel.DistributedDataParallel,
    ScriptFunction, ScriptMethod, *map(type, OPERATORS),
)  # fmt: skip


def torch_now() -> dict[tuple[str, ...], Any]:
    """All that torch's modules hold, and its classes of which an export replaces something; of functions their code."""
    torchs = [module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"]
    found: dict[tuple[str, ...], Any] = {}
    for owner in (*filter(lambda each: isinstance(each, types.ModuleType), torchs), *_CLASSES):
        for name, value in vars(owner).items():
            place = (owner.__module__ if isinstance(owner, type) else "", owner.__name__, name)
            found[place] = value
            # By its very type: some that warn, or that fail without a GPU, do so when they are looked into.
            function = value.__func__ if type(value) in (classmethod, staticmethod) else value
            if type(function) is types.FunctionType:
                found[*place, "code"] = function.__code__
                found[*place, "attributes"] = dict(function.__dict__)
    return found


def changed(before: Mapping[tuple[str, ...], Any]) -> list[tuple[str, ...]]:
    """The places where there is something of ours, or where what can be called is another than before.

    Not what stands for `torch._dynamo` until somebody imports it, nor for settings that torch reads when it compiles:
    that stays on purpose.
    """
    after = torch_now()
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.CodeType, classmethod, property)
    return [
        place
        for place in {**before, **after}
        if place not in after
        or (place[-1] == "attributes" and after[place] != before.get(place, after[place]))
        or (type(after[place]) in kinds and after[place] is not before.get(place))
        or (
            type(after[place]).__module__.startswith("onnx_parity")
            and type(after[place]) not in (StandIn, SettingsReadLater)
        )
    ]


@pytest.fixture(scope="module", autouse=True)
def alone() -> dict[str, bytes]:
    """What programs are exported as in one thread. What torch imports for it is there from then on."""
    trained()
    called()
    return {name: exported(name) for name in MODULES}


@contextmanager
def leaves_torch_as_it_is() -> Iterator[None]:
    before = torch_now()
    yield
    assert changed(before) == []
    assert not [function for function in FUNCTIONS if hasattr(function, "__wrapped__")]


@pytest.mark.slow
def test_threads_export_train_and_call_at_once(alone: dict[str, bytes]) -> None:
    with leaves_torch_as_it_is():
        losses, answers = trained(), called()
        assert answers[:6] == (True, True, True, False, False, False)
        start = threading.Barrier(12)
        exporting = threading.Semaphore(0)

        def exports(number: int) -> None:
            start.wait()
            names = [*MODULES]
            for name in names[number % len(names) :] + names[: number % len(names)]:
                assert exported(name) == alone[name], f"{name} is another model than when exported alone"
            exporting.release()

        def others(work: Callable[[], Any], expected: Any) -> int:
            start.wait()
            times = 0
            while not exporting.acquire(timeout=0) or times == 0:
                found = work()
                assert found == (pytest.approx(expected) if work is trained else expected)
                times += 1
            return times

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-4)
        try:
            with ThreadPoolExecutor(12) as threads:
                done: list[Future[Any]] = [threads.submit(exports, number) for number in range(8)]
                done += [threads.submit(others, trained, losses) for _ in range(2)]
                done += [threads.submit(others, called, answers) for _ in range(2)]
        finally:
            sys.setswitchinterval(interval)
        assert [each.exception() for each in done if each.exception() is not None] == []


@pytest.mark.parametrize("first_ends", ["first", "last"])
@pytest.mark.parametrize("fails", one_in(2, [False, True]), ids=["succeeds", "fails"])
def test_overlapping_exports_leave_torch_as_it_was(first_ends: str, fails: bool) -> None:
    recording, finish = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            recording.set()
            assert finish.wait(10)
            if fails:
                raise ValueError("no good")
            return x + 1

    def export_waiting() -> None:
        onnx_parity.export(Waits(), (torch.ones(2),))

    class Meanwhile(nn.Module):
        """Starts after the other one, and ends before or after it."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if first_ends == "first":
                finish.set()
                other.exception()  # Waits until it is over.
            assert not torch.backends.mha.get_fastpath_enabled()
            assert torch.onnx.is_in_onnx_export()
            result: torch.Tensor = Branches()(x)
            one: float = torch.arange(2.0).tolist()[1]
            return result + one

    with leaves_torch_as_it_is(), ThreadPoolExecutor(1) as threads:
        other = threads.submit(export_waiting)
        assert recording.wait(10)
        # The other thread records, this one does not.
        assert called()[0] and torch.jit.script(Recurrent())(X).shape == (2, 3, 4)
        program = onnx_parity.export(Meanwhile(), (torch.ones(2),))
        finish.set()
        error = other.exception()
        assert isinstance(error, onnx_parity.CaptureError) if fails else error is None
        assert torch.equal(program(torch.ones(2)), torch.full((2,), 3.0))
