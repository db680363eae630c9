"""Exports in several threads at once: each gives what it gives alone, others do not notice, and torch is left as it was.

"Alone" is what the same programs give before any other thread is there.
"""

from __future__ import annotations

import copy
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
from onnx_parity.exporter.capture.sources.higher_order import FUNCTIONS, OPERATORS
from tests.exporter.subjects import Classifier, images


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] / 2


halved = Halved.apply


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return result


class Looks(nn.Module):
    """Reads constants in Python, and applies an autograd function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = halved(x) * sum(torch.arange(3.0).tolist()) + torch.ones(2).numpy().sum()
        return result


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().sum() > 1):
            x = x * 0.5
        return x


def programs() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]]:
    """Modules of the same weights each time, for no two threads may record one module at the same time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        x = torch.rand(2, 3, 8)
        return {
            "lstm": (nn.LSTM(8, 4), (x,), {"input_names": ["x"], "dynamic_axes": {"x": [0]}}),
            "attention": (encoder, (x,), {}),
            "convolutions": (Classifier().eval(), (images(),), {}),
            "branches": (Branches(), (x,), {}),
            "script": (torch.jit.script(Loop()), (x,), {}),
            "reads": (Looks(), (x,), {}),
        }


def exported(name: str, given: Mapping[str, Any] | None = None) -> bytes:
    model, args, options = (given or programs())[name]
    return onnx_parity.export(model, args, **options).serialize()


def trained() -> list[float]:
    """The losses of a few steps that use what an export puts something else in the place of."""
    modules = programs()
    lstm, attention = copy.deepcopy(modules["lstm"][0]), copy.deepcopy(modules["attention"][0])
    parallel = nn.DataParallel(lstm)
    parameters = [*lstm.parameters(), *attention.parameters()]
    x, losses = torch.linspace(-1, 1, 48).reshape(2, 3, 8), []
    packed = nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), torch.tensor([3, 2]))
    for _ in range(2):
        loss = halved(parallel(attention(x))[0]).square().mean() + lstm(packed)[0].data.sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.01 * gradient
        losses.append(loss.item())
    return losses


def called() -> tuple[Any, ...]:
    """What torch itself answers, and how it computes, in a thread that exports nothing."""
    modules = programs()
    with torch.no_grad():
        x = torch.linspace(-1, 1, 48).reshape(2, 3, 8)
        with torch.profiler.profile() as profile:
            attended = modules["attention"][0](x)
        fused = any(event.name == "aten::_transformer_encoder_layer_fwd" for event in profile.events())
        scripted = torch.jit.script(nn.LSTM(8, 4))
        return (
            fused,
            torch.backends.mha.get_fastpath_enabled(),
            torch.is_autocast_cache_enabled(),
            torch.onnx.is_in_onnx_export(),
            torch.jit.is_tracing(),
            torch.is_grad_enabled(),
            round(attended.sum().item(), 4),
            modules["script"][0](x).tolist(),
            torch.equal(torch.from_numpy(Looks()(x).numpy()), x / 2 * 3 + 2),
            len(scripted(x)),
            lstm_refuses_a_wrong_state(),
        )


def lstm_refuses_a_wrong_state() -> str:
    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 8)])
    with pytest.raises(RuntimeError) as caught:
        nn.LSTM(8, 4)(packed, (torch.ones(1, 5, 4), torch.ones(1, 5, 4)))
    return str(caught.value)


# --- torch as it is ---------------------------------------------------------------------------------------------------

_CLASSES: tuple[Any, ...] = (
    torch.Tensor, torch.autograd.Function, nn.RNNBase, nn.LSTM, nn.DataParallel, nn.parallel.DistributedDataParallel,
    torch._C.ScriptFunction, torch._C.ScriptMethod, *map(type, OPERATORS),
)  # fmt: skip


def torch_now() -> dict[tuple[str, ...], Any]:
    """All that torch's modules hold, and its classes of which an export replaces something; of functions their code."""
    torchs = [module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"]
    found: dict[tuple[str, ...], Any] = {}
    for owner in (*filter(lambda each: isinstance(each, types.ModuleType), torchs), *_CLASSES):
        for name, value in vars(owner).items():
            place = (owner.__module__ if isinstance(owner, type) else "", owner.__name__, name)
            found[place] = value
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                found[*place, "code"] = function.__code__
                found[*place, "attributes"] = dict(function.__dict__)
    return found


def changed(before: Mapping[tuple[str, ...], Any]) -> list[tuple[str, ...]]:
    """The places where something else stands than before, among those that an export could have put something into."""
    after = torch_now()
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.CodeType, classmethod, property, type)
    return [
        place
        for place in {**before, **after}
        if place not in after
        or (place[-1] == "attributes" and after[place] != before.get(place, after[place]))
        or (isinstance(after[place], kinds) and after[place] is not before.get(place))
    ]


@contextmanager
def leaves_torch_as_it_is() -> Iterator[None]:
    for name in programs():
        exported(name)
    before = torch_now()
    yield
    assert changed(before) == []
    assert not [function for function in FUNCTIONS if hasattr(function, "__wrapped__")]


def test_threads_export_train_and_call_at_once() -> None:
    with leaves_torch_as_it_is():
        alone = {name: exported(name) for name in programs()}
        losses, answers = trained(), called()
        assert answers[:6] == (True, True, True, False, False, False)
        start = threading.Barrier(12)
        exporting = threading.Semaphore(0)

        def exports(number: int) -> None:
            start.wait()
            names = [*alone]
            for name in names[number % len(names) :] + names[: number % len(names)]:
                assert exported(name) == alone[name], f"{name} is another model than when exported alone"
            exporting.release()

        def others(work: Callable[[], Any], expected: Any) -> int:
            start.wait()
            times = 0
            while not exporting.acquire(timeout=0) or times == 0:
                assert work() == pytest.approx(expected) if work is trained else work() == expected
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
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
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
            result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
            return result + torch.arange(2.0).tolist()[1]

    with leaves_torch_as_it_is(), ThreadPoolExecutor(1) as threads:
        other = threads.submit(export_waiting)
        assert recording.wait(10)
        # The other thread records, this one does not.
        assert torch.backends.mha.get_fastpath_enabled() and torch.equal(Looks()(torch.ones(2)), torch.full((2,), 3.5))
        program = onnx_parity.export(Meanwhile(), (torch.ones(2),))
        finish.set()
        error = other.exception()
        assert isinstance(error, onnx_parity.CaptureError) if fails else error is None
        assert torch.equal(program(torch.ones(2)), torch.full((2,), 3.0))
