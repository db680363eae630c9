"""Gradients inside a program: forces of an energy by `torch.autograd.grad`, and the transforms of `torch.func`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, Keywords, floats, op, scripted

#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "torch's kernels leave out products with zeros, which NaN makes NaN"


class Force(nn.Module):
    """An energy and its derivative by the input, as of a model of atoms by their positions."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.energy = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.energy(x)
            (gradient,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return energy, -gradient


class Recurrent(Force):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True)
        self.energy = nn.Sequential(nn.Tanh())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.layer(x)[0].square().sum((1, 2))
            (gradient,) = torch.autograd.grad(energy.sum(), x)
        return energy, -gradient


class Attack(nn.Module):
    """Steps against the gradient of a loss by the input, each of a leaf of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    @torch.enable_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x.detach().requires_grad_()
            F.cross_entropy(self.layer(x), torch.ones(x.shape[0], dtype=torch.int64)).backward()
            assert x.grad is not None
            x = x + x.grad.sign() / 8
        return x.detach()


@torch.enable_grad()
def added(x: torch.Tensor) -> list[torch.Tensor]:
    """The sum of two gradients, and one of the optimizer's own steps."""
    leaf = x.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([leaf], lr=0.25)
    for power in (2, 3):
        (leaf**power).sum().backward()
    assert leaf.grad is not None
    both = leaf.grad.clone()
    optimizer.step()
    return [both, leaf.detach()]


@torch.enable_grad()
def retained(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor | None]:
    leaf = x.detach().clone().requires_grad_()
    product = leaf * y
    product.retain_grad()
    product.sin().backward(y)
    return [leaf.grad, product.grad]


class Pairs(nn.Module):
    """The potential of pairs of points, which has no weights."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            distances = torch.cdist(x, x + 3) + torch.cdist(x, x - 2, p=1)
            (gradient,) = torch.autograd.grad((-distances).exp().sum(), x)
        return gradient


class Resampled(nn.Module):
    def __init__(self, size: tuple[int, ...], mode: str) -> None:
        super().__init__()
        self.size, self.mode = size, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(F.interpolate(x, self.size, mode=self.mode).square().sum(), x)
        return gradient


class OfWeights(nn.Module):
    """One step of training on the example, as of models that adapt to it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.second.weight = nn.Parameter(self.first.weight.detach().T.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            loss = (self.second(self.first(x).tanh()) - x).square().mean()
            slopes = torch.autograd.grad(loss, [self.first.weight, self.second.bias])
        return F.linear(x, self.first.weight - 0.1 * slopes[0]).sum(1, keepdim=True) + slopes[1]


_BATCH_AND_STEPS: Keywords = {
    "dynamic": {"x0": {0: "batch"}, "x1": {0: "steps"}},
    "tier": "default",
    "without_nan": "onnxruntime's recurrent kernels limit NaN to a number",
}
#: Of products of one number, as of a column and a row, or of the gradient of a weight by a batch of one.
ZERO_OF_A_PRODUCT: Keywords = {
    "signed_zeros": False,
    "because": "by the sizes, torch chooses kernels that add a single product to 0, or others, which keep -0.0",
}


class BesideRecurrent(nn.Module):
    """No gradient passes through the recurrent layer, whose number of steps stays dynamic."""

    def __init__(self, recurrent: nn.RNNBase) -> None:
        super().__init__()
        self.adapting, self.recurrent = OfWeights(), recurrent

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.adapting(x), self.recurrent(steps)[0]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.other(self.one(x).sin()).sum(), self.other.weight)
        return gradient


class Straight(torch.autograd.Function):
    """Rounds, and has the derivative of the hyperbolic tangent."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = ctx.saved_tensors[0]
        return gradients[0] * (1 - x.tanh().square())


def through_function(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        rounded: torch.Tensor = Straight.apply(3 * x)  # type: ignore[no-untyped-call]
        (slope,) = torch.autograd.grad(rounded.square().sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x)
    return slope + bend


def through_grid(x: torch.Tensor, grid: torch.Tensor, **options: Any) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        x, grid = x.detach().requires_grad_(), grid.detach().requires_grad_()
        return torch.autograd.grad(F.grid_sample(x, grid, **options).square().sum(), (x, grid))


def beside_unsafe_chunks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Writes to chunks that share the memory of a tensor, in a program that asks for another gradient."""
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        whole = x * 2
        first, second = whole.unsafe_chunk(2, 1)
        first.sigmoid_()
        second.mul_(first[:, :1])
        return whole, *torch.autograd.grad(y.square().sum(), y)


class OfLayer(nn.Module):
    """The derivative of the outputs of a recurrent layer by its weights."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            return torch.autograd.grad(self.layer(x)[0].square().mean(), [*self.layer.parameters()])


class OfCell(nn.Module):
    """The derivative of a recurrent cell, whose kernel writes to chunks of its gates, by its input and its weights."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            made = self.cell(x)
            whole = torch.cat(made) if isinstance(made, tuple) else made
            return torch.autograd.grad(whole.square().mean(), [x, *self.cell.parameters()])


class OfLSTM(nn.Module):
    """The same by a function of the weights of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
            made: torch.Tensor = torch.func.functional_call(self.layer, weights, (x,))[0]
            return made.square().mean()

        slopes: dict[str, torch.Tensor] = torch.func.grad(loss)(dict(self.layer.named_parameters()))
        return slopes


def elementwise_energy(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x).tanh().sum()


def energy(x: torch.Tensor) -> torch.Tensor:
    """Divided by more than the largest product, whose hyperbolic tangent would be 1 but for its last digits"""
    return ((x.sin() @ x) / 16).tanh().sum()


def curvature(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(x), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.square().sum(), x)
    return bend


def _first_or_all(x: torch.Tensor) -> torch.Tensor:
    y = x[:1] if bool(x.sum() > 0) else x * 2
    if y.shape[0] > 1:
        y = torch.cat([y, y])
    return y


first_or_all = scripted(_first_or_all)


def slope_in_branches(x: torch.Tensor) -> object:
    """Branches of a script in a program that asks for gradients."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(x), x)
    return first_or_all(slope)


def layers(x: torch.Tensor) -> torch.Tensor:
    weight = torch.linspace(-1, 1, 12, dtype=x.dtype).reshape(3, 4)
    return torch.sigmoid(F.linear(x, weight))


def total(x: torch.Tensor) -> torch.Tensor:
    return layers(x).sum()


def gathered(x: torch.Tensor) -> torch.Tensor:
    return x.gather(1, (x > 1).long())


def selected(x: torch.Tensor) -> torch.Tensor:
    return x.masked_select(x > 1)


def running_product(x: torch.Tensor) -> torch.Tensor:
    return (x - x[0, 0]).cumprod(1)


def reflected(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (2, 1), mode="reflect")


def replicated(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (2, 1), mode="replicate")


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x, 3, 2, 1).pow(2).sum()


def mlp() -> Force:
    return Force(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 8), nn.Softplus(), nn.LayerNorm(8), nn.Linear(8, 1))


def convolutional() -> Force:
    return Force(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.Conv2d(4, 4, 3, groups=2, dilation=2, padding=2),
        nn.ELU(),
        nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
    )


def of_a_copy(x: torch.Tensor) -> torch.Tensor:
    """`contiguous` is a copy where both axes are longer than one."""
    return (x.permute(1, 0, 2).contiguous() ** 3).sum()


def attentive() -> Force:
    return Force(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0), nn.Linear(8, 1), nn.Tanh())


slopes_in_branches = op(slope_in_branches, floats(4, 4), dynamic={"x": {0: "rows", 1: "rows"}}, sizes={"rows": (1, 3)})
force_of_mlp = op(mlp(), floats(3, 3), dynamic=BATCH)
force_of_convolutions = op(convolutional(), floats(2, 2, 9, 8), dynamic=BATCH, without_nan=_NAN_TIMES_ZERO)
force_of_attention = op(attentive(), floats(2, 3, 8))
force_of_lstm = op(Recurrent(), floats(2, 3, 3))
force_of_pairs = op(Pairs(), floats(4, 3))
force_through_resampling = op(Resampled((7, 5), "bicubic"), floats(1, 2, 4, 4), without_nan=_NAN_TIMES_ZERO)
force_through_repetition = op(Resampled((5, 3, 2), "nearest"), floats(1, 2, 4, 4, 3), without_nan=_NAN_TIMES_ZERO)
force_through_grid = op(
    through_grid,
    floats(1, 2, 4, 4),
    floats(1, 3, 3, 2, low=-0.9, high=0.9),
    align_corners=False,
    dynamic={"x0": {2: "height"}},
    tier="default",
)
force_through_points = op(
    through_grid,
    floats(1, 2, 4, 5),
    floats(1, 3, 3, 2, low=-1.5, high=1.5),
    rows=[
        {"mode": "bilinear", "padding_mode": "border", "align_corners": True},
        {"mode": "bilinear", "padding_mode": "reflection", "align_corners": False},
        {"mode": "nearest", "padding_mode": "border", "align_corners": False},
        {"mode": "bicubic", "padding_mode": "reflection", "align_corners": True},
    ],
    without_nan=_NAN_TIMES_ZERO,
    tier="default",
)
force_through_volume = op(
    through_grid,
    floats(1, 2, 4, 5, 3),
    floats(1, 2, 2, 2, 3, low=-1.5, high=1.5),
    padding_mode="reflection",
    align_corners=False,
    tier="default",
    without_nan=_NAN_TIMES_ZERO,
)
gradients_by_weights = op(OfWeights(), floats(4, 3), dynamic=BATCH, tier="default")
gradients_beside_gru = op(BesideRecurrent(nn.GRU(3, 4)), floats(4, 3), floats(5, 2, 3), **_BATCH_AND_STEPS)
gradients_beside_lstm = op(BesideRecurrent(nn.LSTM(3, 4, 2)), floats(4, 3), floats(5, 2, 3), **_BATCH_AND_STEPS)
gradients_of_lstm = op(OfLayer(nn.LSTM(3, 4, bidirectional=True)), floats(2, 2, 3), **ZERO_OF_A_PRODUCT, tier="default")
gradients_of_gru = op(
    OfLayer(nn.GRU(3, 4, batch_first=True)), floats(2, 2, 3), dynamic=BATCH, **ZERO_OF_A_PRODUCT, tier="default"
)
gradients_of_rnn = op(OfLayer(nn.RNN(3, 4, 2, bias=False)), floats(2, 2, 3), **ZERO_OF_A_PRODUCT, tier="default")
gradients_of_cells = op(
    OfCell,
    floats(2, 3),
    rows=[{"cell": nn.LSTMCell(3, 4)}, {"cell": nn.GRUCell(3, 4, bias=False)}],
    **ZERO_OF_A_PRODUCT,
    tier="default",
)
gradient_beside_unsafe_chunks = op(beside_unsafe_chunks, floats(4, 3), dynamic=BATCH, tier="default")
gradient_of_function_of_weights = op(OfLSTM(), floats(2, 2, 3), **ZERO_OF_A_PRODUCT, tier="default")
gradient_by_shared_weight = op(Tied(), floats(4, 3), tier="default")
gradient_through_function = op(through_function, floats(3, 3), tier="default")
second_derivative = op(curvature, floats(3, 3))
jacobian = op(torch.func.jacrev(layers), floats(4))
jacobian_forwards = op(torch.func.jacfwd(layers), floats(4))
hessian = op(torch.func.hessian(energy), floats(3, 3))
hessian_of_views = op(
    lambda x: [torch.func.hessian(elementwise_energy)(view) for view in (x.t(), x[:, 1:], x[:, ::2], x[0, ::2])],
    floats(3, 4),
)
gradient_of_copies = op(torch.func.grad(of_a_copy), floats(2, 3, 4), dynamic={"x": {0: "batch", 1: "rows"}})
hessian_of_any_size = op(torch.func.hessian(energy), floats(3), dynamic=BATCH)
jacobian_of_any_size = op(torch.func.jacrev(torch.sin), floats(4), dynamic=BATCH)
jacobian_of_autograd = op(
    lambda x, vectorize: torch.autograd.functional.jacobian(
        lambda a, b: (a.sin() * b, b.sum() * a), (x, x + 1), vectorize=vectorize
    ),
    floats(4),
    vectorize=[False, True],
    dynamic=BATCH,
)
hessian_of_autograd = op(lambda x: torch.autograd.functional.hessian(energy, x), floats(3), dynamic=BATCH)
_ANY_ROWS: Keywords = {
    "dynamic": {"x": {0: "batch", 1: "length"}},
    "sizes": {"batch": [1, 7], "length": [4, 11]},
}
gradients_through = op(
    lambda x, f: torch.func.grad(lambda y: f(y).pow(2).sum())(x),
    floats(3, 5, low=0.5, high=2.0),
    f=[gathered, selected, running_product, reflected, replicated],
    **_ANY_ROWS,
)
gradient_through_maxima = op(
    torch.func.grad(pooled),
    floats(3, 5),
    **_ANY_ROWS,
    without_nan="onnxruntime's MaxPool leaves NaN out",
)
gradient_of_samples = op(torch.func.vmap(torch.func.grad(total)), floats(3, 4), dynamic=BATCH)
mapped_along_the_last = op(torch.func.vmap(layers, in_dims=1, out_dims=1), floats(4, 3))
product_with_jacobian = op(lambda x, v: torch.func.vjp(layers, x)[1](v), floats(4), floats(3))
directional = op(lambda x, v: torch.func.jvp(layers, (x,), (v,)), floats(4), floats(4))

# `backward()` adds to the `.grad` of leaves that the program makes.
attack_by_backward = op(Attack(), floats(3, 4), dynamic=BATCH)
gradients_added = op(added, floats(3, 4), dynamic=BATCH)
gradient_retained = op(retained, floats(3, 4), floats(3, 4), dynamic={"x0": {0: "batch"}, "x1": {0: "batch"}})

pooling_backwards = op(
    lambda x, y: torch.ops.aten.max_pool2d_with_indices_backward(
        y, x, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(x, 2, return_indices=True)[1]
    ),
    floats(2, 3, 6, 4), floats(2, 3, 3, 2), without_nan="onnxruntime's MaxPool leaves NaN out",
)  # fmt: skip
