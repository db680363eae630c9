"""Programs of all kinds: functions, hooks, shared and repeated modules, autograd functions, other torch modes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensorMode
from tests.exporter.subjects import assert_agrees
from tests.fresh import run_after_torch

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.output = nn.Linear(5, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.output(self.embedding(indices))
        return result


def test_tied_weights_are_one_initializer() -> None:
    model = Tied()
    program = onnx_parity.export(model, (torch.tensor([1, 2]),))
    assert list(program.model.graph.initializers) == ["embedding.weight"]
    assert_agrees(program, model, torch.tensor([0, 6]))


def test_a_module_called_twice_has_its_weights_once() -> None:
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    program = onnx_parity.export(model, (X,))
    assert list(program.model.graph.initializers) == ["0.weight", "0.bias"]
    assert_agrees(program, model, X)


def test_hooks_run() -> None:
    model = nn.Linear(4, 2)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    model.register_forward_hook(lambda module, args, output: output * 2)
    assert_agrees(onnx_parity.export(model, (X,)), model, X)


def closure() -> Callable[[torch.Tensor], torch.Tensor]:
    scale = torch.arange(4.0)
    return lambda x: x * scale + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor(2)


def by_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * number for number, row in enumerate(x)])


def vmapped(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(lambda row: row / row.sum())(x)
    return result


def gradient(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.func.grad(lambda t: (t**2).sum())(x)
    return result


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@pytest.mark.parametrize(
    "program",
    [closure(), by_rows, vmapped, gradient, functools.partial(scaled, by=3.0), nn.Linear(4, 2).forward],
    ids=["closure", "by_rows", "vmapped", "gradient", "partial", "method"],
)
def test_functions(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert_agrees(onnx_parity.export(program, (X,)), program, X + 5)


def test_zeros_like_what_was_computed_from_weights_alone() -> None:
    weight = nn.Parameter(torch.ones(3, 4))

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(weight * 2) + x

    for _ in range(2):  # The second export finds the shapes that the first one has stored.
        assert_agrees(onnx_parity.export(program, (X,)), program, X + 5)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, times: int) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(x)
        ctx.times = times
        assert ctx.needs_input_grad == (False, False)
        return x * times, x.sum()


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)


class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.clamp_(min=0)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: Doubled.apply(x, 3),  # type: ignore[no-untyped-call]
        lambda x: Halved.apply(x) + 1,  # type: ignore[no-untyped-call]
        lambda x: Clamped.apply(x.clone()),  # type: ignore[no-untyped-call]
        lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=True),
        lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False),
    ],
    ids=["with ctx", "with setup_context", "in place", "reentrant checkpoint", "checkpoint"],
)
def test_autograd_functions_are_their_forward(program: Callable[[torch.Tensor], Any]) -> None:
    assert_agrees(onnx_parity.export(program, (X,)), program, X)
    if program(X) is not None:
        grown = X.clone().requires_grad_()
        assert_agrees(onnx_parity.export(program, (grown,)), program, X)


def test_inside_inference_mode_and_with_its_tensors() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    with torch.inference_mode():
        x = torch.ones(3, 4)
        program = onnx_parity.export(model, (x,))
    assert_agrees(program, model, X)
    assert_agrees(onnx_parity.export(model, (x,)), model, X)


def test_in_inference_mode() -> None:
    """torch has no `as_strided`, with which it fills diagonals too, of the tensors that are made in this mode."""

    def views(x: torch.Tensor) -> torch.Tensor:
        filled = torch.zeros(3, 3).fill_diagonal_(1)
        return filled @ x[1:].as_strided((3, 2), (2, 1)) + x.add_(1).sum()

    with torch.inference_mode():
        x = torch.rand(3, 4)
        before = x.clone()
        program = onnx_parity.export(views, (x,))
        assert torch.equal(x, before) and torch.is_inference_mode_enabled()
        torch.testing.assert_close(program(x), views(before))


def test_scripted_parts_without_decisions_by_value() -> None:
    @torch.jit.script
    def powers(x: torch.Tensor, n: int) -> torch.Tensor:
        total = x
        for number in range(n):
            total = total * x + number
        return total

    assert_agrees(onnx_parity.export(lambda x: powers(x, 3), (X,)), lambda x: powers(x, 3), X)
    for module in (torch.jit.script(nn.Linear(4, 2)), torch.jit.trace(nn.Linear(4, 2), X)):
        assert_agrees(onnx_parity.export(module, (X,)), module, X)


class Layers(nn.Module):
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4))
        self.lstm = nn.LSTM(5, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.lstm(self.layers(x))[0] * self.scale
        return result


@pytest.mark.parametrize("where", ["fake", "inside", "meta"])
def test_weights_supplied_later(where: str, tmp_path: Path) -> None:
    model, x = Layers().eval(), torch.rand(2, 3, 5)
    fakes = FakeTensorMode()
    with torch.device("meta") if where == "meta" else fakes:
        empty = Layers().eval()
        example = torch.rand(2, 3, 5)
    with fakes if where == "inside" else nullcontext():
        program = onnx_parity.export(empty, (example,))
    with pytest.raises(onnx_parity.WriteError) as caught:
        program.save(tmp_path / "model.onnx")
    assert str(caught.value).endswith(
        "has no data, because it is fake or on the meta device: export without a file, and "
        "call program.apply_weights(model.state_dict()) before program.save(...)"
    )
    assert not list(tmp_path.iterdir())
    program.apply_weights({name: value for name, value in model.state_dict().items() if "tracked" not in name})
    assert_agrees(program, model, x)


def test_data_parallel_is_its_module() -> None:
    model = nn.DataParallel(nn.Sequential(nn.DataParallel(nn.Linear(4, 2)), nn.ReLU()))
    model.device_ids = [0, 1]
    program = onnx_parity.export(model, (X,))
    assert list(program.model.graph.initializers) == ["module.0.module.weight", "module.0.module.bias"]
    assert_agrees(program, model.module, X)


def test_a_compiled_module_is_called_as_what_it_was_made_of() -> None:
    def compile_nothing(graph: object, inputs: object) -> Callable[..., Any]:
        raise AssertionError("neither an export nor its verification compiles a program")

    layer = nn.Linear(4, 2)
    compiled = torch.compile(layer, backend=compile_nothing)
    program = onnx_parity.export(compiled, torch.randn(3, 4), dynamic_shapes={"input": {0: "batch"}}, verify=True)
    assert program.input_names == ("input",)
    layer.compile(backend=compile_nothing)
    onnx_parity.export(layer, torch.randn(3, 4), dynamic_axes={"input": [0]}, verify=True)


def test_lazy_modules() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).eval()
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(model, (X,))
    assert str(caught.value) == (
        "'0.weight' has no shape yet: it belongs to a lazy module, which infers its shape from the first input. Call "
        "the model with the example once, and load its weights"
    )
    model(X)
    assert_agrees(onnx_parity.export(model, (X,)), model, X)


_DIVIDED = """
import torch, sys
import onnx_parity
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
model = torch.nn.Linear(4, 2)
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
try:
    onnx_parity.export(model, (torch.randn(3, 4),))
except onnx_parity.ArgumentError as error:
    print(error)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_weights_that_are_divided_among_processes(tmp_path: Path) -> None:
    """The group has threads, without which a fork of its process may not end it."""
    done = run_after_torch(_DIVIDED, str(tmp_path / "group"))
    assert re.search(r"'weight' is a DTensor.*: export a model with whole", done.stdout), done.stderr


class _Named(torch.Tensor):
    """A tensor of a class of its own."""


@pytest.mark.parametrize("made", [lambda x: x.as_subclass(_Named), _Named])
def test_tensors_of_classes_of_their_own_that_a_program_makes(made: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"makes a tensor in a way(?s:.*)use plain tensors there"):
        onnx_parity.export(lambda x: made(x) * 2, (X,))


def test_code_that_a_compiler_made_and_that_has_no_hash_is_captured() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    program.__code__ = program.__code__.replace(co_consts=(*program.__code__.co_consts, {}))
    with pytest.raises(TypeError):
        hash(program.__code__)
    x = torch.randn(3)
    assert torch.equal(onnx_parity.export(program, (x,))(x), torch.relu(x))


@pytest.mark.parametrize("is_causal", [None, False])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_returns_zeros_at_padding(is_causal: bool | None) -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 6, batch_first=True), 1).eval()

    def program(x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = encoder(x, src_key_padding_mask=padding, is_causal=is_causal)
        return result

    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        expected = program(x, padding)
        exported = onnx_parity.export(program, (x, padding))
    assert not expected[0, 2].any()
    torch.testing.assert_close(exported(x, padding), expected)
