"""Programs that need a change to torch, and what they are called with."""

from __future__ import annotations

import enum
import functools
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nested._internal.nested_tensor import (
    nested_from_padded,
)
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.parallel import DistributedDataParallel

import onnx_parity
from onnx_parity.exporter.patches.recording import capturing_surroundings
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.torch_inside.fake_tensors import contexts_of_fake_kernels
from tests.exporter.torch_inside.witness import RIGHT, exporting


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Kind(enum.IntEnum):
    FIRST = 1


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return branch(x)


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def branch(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if bool(x.sum() > 0) else x.cos()


def times_a_global(x: torch.Tensor) -> torch.Tensor:
    return x * X


def replace_memory(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.set_(y.untyped_storage(), 0, (4, 3), (3, 1))
    return x * 2


def random(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(3)


def random_from_a_state(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return x + first + torch.rand(3)


def seed_of_the_process() -> str:
    """Whether an export leaves the random numbers of the process as they were."""
    torch.manual_seed(0)
    onnx_parity.export(lambda x: x + torch.random.seed() % 2, (X,))
    return RIGHT if torch.initial_seed() == 0 else "another seed"


def attend(x: torch.Tensor) -> Any:
    return flex_attention(x, x, x, lambda score, *_: score * 2)


def script_of_math(x: torch.Tensor) -> Any:
    def root(x: torch.Tensor) -> torch.Tensor:
        return x + math.sqrt(x.shape[0])

    return torch.jit.script(root)(x)


def ragged(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor_from_jagged(x, offsets).sin().to_padded_tensor(0.0)


def padded_back(x: torch.Tensor, offsets: torch.Tensor) -> Any:
    return nested_from_padded(
        torch.nested.nested_tensor_from_jagged(x, offsets).to_padded_tensor(0.0), offsets
    ).values()


def narrowed(x: torch.Tensor, starts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.nested.narrow(x, 1, starts, lengths, layout=torch.jagged).contiguous().values()


def in_library(source: str, **names: Any) -> Callable[..., Any]:
    """A function of one expression, as code of an installed library that is called with a tensor x."""
    function: Callable[..., Any] = eval(f"lambda x: {source}", {"__name__": "numpy.made", "torch": torch, **names})
    return function


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval()


def on_two_devices() -> nn.Module:
    module = nn.DataParallel(Scale())
    module.device_ids = [0, 1]
    return module


def distributed() -> nn.Module:
    """Made without a group of processes, which its constructor asks for."""
    module = DistributedDataParallel.__new__(DistributedDataParallel)
    nn.Module.__init__(module)
    module.module = Scale()
    return module


def context_of_another_thread() -> str:
    """Whether the context of a fake kernel is seen by its own thread alone."""
    seen: list[Any] = []
    with capturing_surroundings(), contexts_of_fake_kernels.set_ctx_getter(lambda: "own"):
        other = threading.Thread(target=lambda: seen.append(contexts_of_fake_kernels.global_ctx_getter()))
        other.start()
        other.join()
        own = torch.library.get_ctx()
    return RIGHT if (own, *seen) == ("own", None) else f"the contexts are {own} and {seen[0]}"


def number_of_stack_traces() -> str:
    """Whether a mode of fake tensors is made without a stack trace."""
    with capturing_surroundings():
        return RIGHT if not Fakes(None)._stack_trace else "a stack trace is taken"


def failure_in_the_log() -> str:
    """Whether torch logs what fails with fake tensors, which the error describes."""
    logged: list[logging.LogRecord] = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(logging.getLogger("torch._subclasses.fake_tensor"), "callHandlers", logged.append)
        exporting(lambda x: x @ x, X)()
    return "torch logs an error" if logged else RIGHT


X, Y = torch.arange(12.0).reshape(4, 3) / 7 - 0.6, torch.arange(12.0).reshape(4, 3) / 7 - 1.3
HEADS = torch.arange(24.0).reshape(1, 2, 4, 3) / 24
ROWS: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0]}}
SIX = torch.arange(18.0).reshape(6, 3) / 7 - 0.6
OFFSETS, OTHER_OFFSETS = torch.tensor([0, 1, 4]), torch.tensor([0, 3, 4])
PADDED = (torch.arange(24.0).reshape(2, 3, 4) / 24, None, torch.tensor([[False, False, True], [False, True, True]]))
FLOOR, UNKNOWN = "// of real numbers", "a list of unknown length"


def halve(x: torch.Tensor) -> torch.Tensor:
    while bool(x.abs().max() > 1):
        x = x / 2
    return x


scripted, branching = torch.jit.script(halve), torch.jit.script(Branch())
compiled = torch.compile(torch.sin, backend="eager")
traced_or_scripted = torch.jit.script_if_tracing(branch)
traced_or_itself = torch.jit.script_if_tracing(times_a_global)
ops = torch._higher_order_ops


@functools.cache
def graph_of(program: Callable[..., Any]) -> nn.Module:
    """The graph of a program, which calls the operators themselves."""
    whole = nn.Module()
    whole.forward = program
    return torch.export.export(whole, (X,)).module()


def exporting_graph(program: Callable[..., Any], expected: Callable[..., Any]) -> Callable[[], str]:
    """As `exporting`, for the graph of a program, which is made when it is first needed."""

    def outcome() -> str:
        return exporting(graph_of(program), X, others=[(Y,)], expected=expected)()

    return outcome


def cond(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def while_loop(x: torch.Tensor) -> Any:
    return ops.while_loop(lambda y: y.abs().sum() > 1, lambda y: (y / 2,), (x,))[0]


def scan(x: torch.Tensor) -> Any:
    return ops.scan(lambda carry, row: (carry + row, carry * row), x[0] * 0, x)[1]


def add_sum(row: torch.Tensor, *_: Any) -> torch.Tensor:
    return row.sin() + row.sum()


def map_rows(x: torch.Tensor) -> Any:
    return ops.map(add_sum, x)


def order(row: torch.Tensor) -> torch.Tensor:
    return row.gather(0, row.argsort())


def plain_cond(x: torch.Tensor) -> torch.Tensor:
    return branch(x)


def plain_while_loop(x: torch.Tensor) -> torch.Tensor:
    while x.abs().sum() > 1:
        x = x / 2
    return x


def plain_scan(x: torch.Tensor) -> torch.Tensor:
    before = x.cumsum(0) - x
    return before * x


def plain_map_rows(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + x.sum(1, keepdim=True)


def until_small(x: torch.Tensor) -> torch.Tensor:
    while (x.abs().sum() > 1).item():
        x = x / 2
    return x


def until_close(x: torch.Tensor) -> torch.Tensor:
    while not x.allclose(x / 2, atol=0.1):
        x = x / 2
    return x


def until_close_to_half(x: torch.Tensor) -> torch.Tensor:
    while not torch.allclose(x, x / 2, atol=0.1):
        x = x / 2
    return x


def until_equal(x: torch.Tensor) -> torch.Tensor:
    while not x.equal(x.clamp(max=0.1)):
        x = x - 0.2
    return x


def until_equal_to_less(x: torch.Tensor) -> torch.Tensor:
    while not torch.equal(x, x.clamp(max=0.1)):
        x = x - 0.2
    return x
