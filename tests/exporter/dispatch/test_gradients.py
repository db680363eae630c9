"""Programs that ask autograd for gradients while they are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

HERE = Path(__file__).name
X = torch.linspace(-1, 1, 12).reshape(3, 4)
WEIGHT = torch.linspace(-1, 1, 8).reshape(4, 2)


def slope(x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad((x @ WEIGHT).sin().sum(), x)
    return gradient


def test_input_that_requires_gradients() -> None:
    x = X.clone().requires_grad_()
    program = onnx_parity.export(slope, (x,), opset_version=17, verify=True)
    torch.testing.assert_close(program(X), slope(x))


def test_input_that_the_program_lets_require_gradients() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return slope(x.clone().requires_grad_())

    exported = onnx_parity.export(
        program, (X,), opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "batch"}}, verify=True
    )
    longer = torch.linspace(-2, 2, 20).reshape(5, 4)
    torch.testing.assert_close(exported(longer), program(longer))


def test_what_is_not_differentiated_stays_whole() -> None:
    layer = nn.Linear(4, 4)

    def program(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.grad(lambda t: layer(t).square().sum())(layer(x))
        return found

    operators = onnx_parity.capture_program(program, (X,)).operators
    assert operators[0] == "aten::linear"
    assert operators.count("aten::linear") == 1
    assert "aten::addmm" in operators


def test_modes_are_restored() -> None:
    before = torch.is_grad_enabled(), torch._C._functorch.get_inplace_requires_grad_allowed()
    onnx_parity.capture_program(lambda x: slope(x.clone().requires_grad_()), (X,))
    assert before == (torch.is_grad_enabled(), torch._C._functorch.get_inplace_requires_grad_allowed())
    assert X.requires_grad is False


def test_buffers_are_written_beside_gradients() -> None:
    class Counting(nn.Module):
        steps: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return slope(x.clone().requires_grad_()) * self.steps

    with pytest.warns(onnx_parity.DroppedWriteWarning):
        onnx_parity.export(Counting(), (X,), opset_version=17, verify=True)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


def through_function_twice(x: torch.Tensor) -> Any:
    def rounded(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = Rounded.apply(x)  # type: ignore[no-untyped-call]
        return result.sum()

    return torch.func.grad(lambda x: torch.func.grad(rounded)(x).sum())(x)


def through_onnx(x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(onnx_parity.ops.symbolic("Relu", (x,), dtype=x.dtype, shape=x.shape).sum(), x)


class OfWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor | None:
        self.layer(x).sum().backward()
        return self.layer.weight.grad


OF_NO_MODULE = nn.Parameter(torch.ones(4))


def by_its_own_parameter(x: torch.Tensor) -> Any:
    return torch.autograd.grad((x * OF_NO_MODULE).sum(), OF_NO_MODULE)


NOT_RECORDED = (
    ", whose derivative is not recorded: write it with operators of torch, or call it with x.detach() if its gradient "
    "is not needed"
)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (through_function_twice, f"the program asks for gradients through Rounded, an autograd function{NOT_RECORDED}"),
        (through_onnx, f"the program asks for gradients through Relu{NOT_RECORDED}"),
        (
            OfWeights(),
            "the program calls backward(), which adds to the .grad of weights of the module: ONNX has nothing to add "
            "to. Use torch.autograd.grad(result, weights), which returns the gradients",
        ),
        (
            by_its_own_parameter,
            "the program asks for gradients by a parameter that does not belong to the module that is exported: "
            "make it a parameter of the module, or an input",
        ),
    ],
)
def test_refusals_name_the_line(program: Any, message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as error:
        onnx_parity.export(program, (X,), opset_version=17)
    text, _, place = str(error.value).rpartition(" (at ")
    assert text == message
    assert HERE in place


def test_weights_are_in_their_place_after_gradients_by_them() -> None:
    class OfItsWeight(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.autograd.grad(self.layer(x).tanh().sum(), self.layer.weight)

    module = OfItsWeight()
    before = dict(module.named_parameters())
    program = onnx_parity.export(module, (X,), opset_version=17, verify=True)
    assert all(each is before[name] for name, each in module.named_parameters())
    assert "layer.bias" in {each.name for each in program.model_proto.graph.initializer}


def test_gradients_by_the_weights_of_a_recurrent_layer() -> None:
    class OfRecurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(4, 2)

        def forward(self, x: torch.Tensor) -> Any:
            decay = sum(each.square().sum() for each in self.parameters())
            weight: Any = self.layer.weight_hh_l0
            return torch.autograd.grad(self.layer(x)[0].sum() + decay, weight)

    module = OfRecurrent()
    before = list(module.layer._flat_weights)
    onnx_parity.export(module, (X,), opset_version=17, verify=True)
    assert all(one is other for one, other in zip(module.layer._flat_weights, before, strict=True))


def test_a_use_of_a_weight_that_its_gradient_would_lack_is_refused() -> None:
    class Elsewhere(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.others = [self.layer.weight]

        def forward(self, x: torch.Tensor) -> Any:
            return torch.autograd.grad(self.layer(x).sum() + self.others[0].square().sum(), self.layer.weight)

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(Elsewhere(), (X,), opset_version=17)
    words, _, place = str(caught.value).rpartition(" (at ")
    assert words == (
        "the program asks for gradients by weights, and uses layer.weight otherwise than as an attribute of its "
        "module. The gradients would lack this use: use the attribute"
    )
    assert HERE in place


def test_a_function_is_differentiated_in_a_program_that_writes_to_copies_of_its_own_tensors() -> None:
    own = torch.rand(2, 2)

    def program(x: torch.Tensor) -> tuple[Any, ...]:
        written = own.clone()
        written[0] = x[0]
        gradient = torch.func.grad(lambda x: (x.sin() * own).sum())(x)
        rows = torch.func.vmap(lambda row: row * own[0])(x)
        written.mul_(0.3)
        return gradient, rows, written, torch.func.grad(lambda own: (x.sin() * own).sum())(own)

    x = torch.rand(2, 2)
    assert_agrees(onnx_parity.export(program, (x,)), program, x)


@pytest.mark.parametrize("hides_a_row", [False, True])
def test_attention_with_a_mask_of_booleans_is_differentiated(hides_a_row: bool) -> None:
    mask = torch.tensor([[True, False, True], [not hides_a_row, False, False], [True, True, True]])

    def squared(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x * 2, x, attn_mask=mask).square().sum()

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return squared(x), torch.func.grad(squared)(x)

    x = torch.rand(1, 2, 3, 4)
    assert_agrees(onnx_parity.export(program, (x,)), program, x)


@torch.jit.script
def _in_branches(x: torch.Tensor) -> torch.Tensor:
    return x * 3 if bool(x.sum() > 0) else x * x


@torch.jit.script
def _in_a_loop(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(int(x.abs().sum()) + 1):
        y = y * 1.5
    return y


@torch.jit.script
def _in_a_list(x: torch.Tensor) -> torch.Tensor:
    items = [x]
    for _ in range(int(x.abs().sum()) + 1):
        items.append(x * 2)
    return torch.stack(items).sum(0)


def _conditionally(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x * 3, lambda x: x * x, (x,))  # type: ignore[no-any-return]


def _by_autograd(function: Any) -> Any:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad((x * function(x)).sum(), x)
        return slope

    return program


_X = torch.tensor([0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    "program",
    [
        *(_by_autograd(each) for each in (_in_branches, _in_a_loop, _in_a_list, _conditionally)),
        *(torch.func.grad(lambda x, f=each: (x * f(x)).sum()) for each in (_in_branches, _in_a_loop, _in_a_list)),
        torch.func.jacrev(_in_branches),
        torch.func.jacfwd(_in_a_loop),
        lambda x: torch.func.jvp(_in_branches, (x,), (torch.ones_like(x),))[1],
    ],
)
def test_gradients_through_a_block_that_depends_on_values_are_refused(program: Any) -> None:
    """What a block returns has no history for autograd, which would leave the way through it out, without a word."""
    with pytest.raises(onnx_parity.ExportError, match=r"asks for gradients through a (branch|loop|list), whose"):
        onnx_parity.export(program, (_X,))


@pytest.mark.parametrize("block", [_in_branches, _in_a_loop, _in_a_list])
def test_a_block_whose_gradient_is_not_asked_for_is_exported(block: Any) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        slope = _by_autograd(torch.sin)(x)
        return block(slope), _by_autograd(lambda x: block(x.detach()))(x)

    assert_agrees(onnx_parity.export(program, (_X,)), program, _X)
    assert_agrees(onnx_parity.export(program, (_X,)), program, -_X)


def _of_a_written_part(write: Any) -> Any:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            whole = x * 2
            write(whole)
            (slope,) = torch.autograd.grad(whole.square().sum(), x)
        return slope

    return program


_PARTS = {
    "second half": lambda whole: whole[whole.shape[0] // 2 :].sigmoid_(),
    "first row": lambda whole: whole[0].sigmoid_(),
    "unsafe chunk": lambda whole: whole.unsafe_chunk(2)[1].sigmoid_(),
}
_ROWS = torch.linspace(-1, 1, 12).reshape(4, 3)


@pytest.mark.parametrize("write", _PARTS.values(), ids=_PARTS)
def test_the_gradient_of_a_write_to_a_part_is_only_known_for_static_sizes(write: Any) -> None:
    program = _of_a_written_part(write)
    if write is not _PARTS["unsafe chunk"]:  # Whose gradients torch gets wrong.
        assert_agrees(onnx_parity.export(program, (_ROWS,)), program, _ROWS)
    with pytest.raises(onnx_parity.CaptureError, match="through a write to a part of a tensor of dynamic size"):
        onnx_parity.export(program, (_ROWS,), dynamic_axes={"x": {0: "rows"}})


def test_the_gradient_of_a_write_to_a_whole_tensor_is_known() -> None:
    program = _of_a_written_part(lambda whole: whole.view(-1).sigmoid_())
    exported = onnx_parity.export(program, (_ROWS,), dynamic_axes={"x": {0: "rows"}})
    assert_agrees(exported, program, torch.linspace(-1, 1, 21).reshape(7, 3))


@pytest.mark.parametrize(("cell", "nodes"), [(nn.LSTMCell(3, 4), 12), (nn.GRUCell(3, 4), 12)])
def test_recurrent_cells(cell: nn.Module, nodes: int) -> None:
    def hidden(x: torch.Tensor) -> torch.Tensor:
        made = cell(x)
        found: torch.Tensor = made[0] if isinstance(made, tuple) else made
        return found

    for program in (hidden, lambda x: torch.func.jvp(hidden, (x,), (x,))):
        assert_agrees(onnx_parity.export(program, (_ROWS,)), program, _ROWS)
    assert len(onnx_parity.export(cell, (_ROWS,)).model.graph) == nodes


def by_some_inputs(x: torch.Tensor) -> list[torch.Tensor | None]:
    one, other = x.detach().clone().requires_grad_(), (x * 2).detach().requires_grad_()
    (one * other).sum().backward(inputs=[one])
    return [one.grad, other]


def with_a_hook(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    seen: list[torch.Tensor] = []
    product = leaf * 3
    product.register_hook(seen.append)
    product.square().sum().backward()
    return seen[0]


def of_the_input(x: torch.Tensor) -> torch.Tensor | None:
    x.requires_grad_()
    x.sin().sum().backward()
    return x.grad


class OfTrainedWeights(nn.Module):
    """Its weight has a gradient from before, to which each call adds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.layer.weight.grad = torch.ones(2, 4)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor | None]:
        leaf = x.detach().clone().requires_grad_()
        self.layer(leaf).square().sum().backward()
        return [leaf.grad, self.layer.weight.grad]


def test_gradients_of_weights_from_before_are_refused() -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"uses the \.grad of a weight, which it has from before"):
        onnx_parity.export(OfTrainedWeights(), (torch.randn(3, 4),))


@pytest.mark.parametrize("program", [by_some_inputs, with_a_hook, of_the_input])
def test_backward_adds_to_leaves_of_the_program(program: Any) -> None:
    x = torch.randn(3, 4)
    exported = onnx_parity.export(program, (x.clone(),))
    assert x.grad is None
    torch.testing.assert_close(exported(x), program(x.clone()))
