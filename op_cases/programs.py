"""Programs of all kinds: nested arguments, writes in place, autograd functions, torch's modes, wrapped modules."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode

from onnx_parity.harness.case import BATCH, BATCHES, bools, floats, given, ints, numbers, op

# --- operators that few programs call themselves ---------------------------------------------------------------------


def prims(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    of = torch.ops.prims
    places = of.iota(4, start=1, step=2, dtype=torch.int64, device="cpu", requires_grad=False)
    return of.div(x, x + 10), of.div(places - 4, places), of.sum(of.exp(x), [1]), of.rev(x, [0]), x + places


def checked(x: torch.Tensor) -> torch.Tensor:
    torch.ops.aten._assert_tensor_metadata(x, [3, 4], dtype=x.dtype)
    zero: torch.Tensor = torch.ops.aten._functional_assert_async.msg((x > -100).all(), "too small", torch.zeros(()))
    return x + zero


operators_of_prims = op(prims, floats(3, 4))
operators_of_checks = op(checked, floats(3, 4))

# --- inputs and outputs -----------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    sum: torch.Tensor
    rest: list[torch.Tensor | None]


def structured(
    pair: tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]], scale: torch.Tensor, times: int = 2, on: bool = True
) -> dict[str, Any]:
    first, (second, third) = pair
    total = first * scale * times if on else first
    return {"parts": Parts(total + second, [third, None]), "again": (first, [first, {"deep": (third.t(),)}])}


nested = op(structured, (floats(3, 4), (floats(3, 4), floats(3, 2))), scale=floats(4), times=[2, 3], on=[True, False])
by_keyword = op(lambda x, *, scale, shift=None: x * scale, floats(3, 4), scale=floats(4), shift=None)
unused_input = op(lambda x, unused: x + 1, floats(3, 4), floats(2), dynamic={"x0": {0: "batch"}})
one_result_twice = op(lambda x: (x, x, y := x + 1, y, x), floats(3, 4), dynamic=BATCH)
constant_result = op(lambda x: (x * 2, torch.arange(3), torch.ones(2, 2)), floats(3, 4), dynamic=BATCH)
parts_of_axis = op(lambda x: [part * number for number, part in enumerate(x.unbind(1))], floats(3, 4), dynamic=BATCH)

# --- writes in place --------------------------------------------------------------------------------------------------


def through_masks(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[x > 1] = 0
    x[m] += 1
    x[..., 0] *= 2
    x[:, ::2].clamp_(-1, 1)
    return x


def through_views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clone()
    view = x.t()[1:]
    view[:, 0].mul_(3)
    view.unsqueeze(0).squeeze(0)[-1].neg_()
    x.view(-1)[::3] = 9
    x.diagonal().add_(1)
    x.expand(2, *x.shape)[0].sub_(1)
    return x, view


def reversed_writes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flipped = x.flip(0)
    flipped[0] = 3
    flipped.flip(1)[:, 0] = 5  # A flip is a copy: this changes nothing.
    return x, flipped


def into_out(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    out = x.new_empty(0)
    torch.add(x, 1, out=out)
    whole = x.new_zeros(6, 4)
    torch.cat([x, out], out=whole)
    torch.sum(x, 0, out=whole[0])
    torch.mul(whole[1:3], 2, out=whole[3:5])
    values, places = x.new_empty(3, 2), torch.empty(3, 2, dtype=torch.int64)
    torch.topk(x, 2, out=(values, places))
    return out, whole, values, places


def aliases(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.clone()
    b = a
    b += 1
    c = a[:]
    c.neg_()
    left, right = a.chunk(2, 1)
    left.add_(right)
    first, *_ = a.unbind(0)
    first.zero_()
    a.data[1] = 4
    return a, b, c, left


write_masks = op(through_masks, floats(3, 4), bools(3, 4), dynamic=BATCHES)
write_views = op(through_views, floats(3, 4))
write_flipped = op(reversed_writes, floats(3, 4), dynamic=BATCH)
write_out = op(into_out, floats(3, 4))
write_aliases = op(aliases, floats(3, 4))
write_repeated = op(
    lambda x, i, y: (x := x.clone(), x.index_put_((i,), y, accumulate=True), x.index_add_(0, i, y, alpha=2), x)[-1],
    numbers(4, 3),
    ints(5, high=4),
    numbers(5, 3),
    dynamic={"x1": {0: "writes"}, "x2": {0: "writes"}},
)
write_copies = op(
    lambda x, y: (x := x.clone(), x[1:].copy_(y[:-1]), x[0].copy_(y[-1, 0]), x.fill_diagonal_(1), x.t_(), x)[-1],
    floats(3, 4),
    floats(3, 4),
    dynamic=BATCHES,
)
write_input = op(
    lambda x, y: (x.mul_(2), y.view(-1)[:1].fill_(7), x + y)[-1], floats(3, 4), floats(3, 4), dynamic=BATCHES
)
write_pointwise = op(
    lambda x, name, args: getattr(x * 2, name)(*args),
    floats(3, 3),
    rows=[
        {"name": "clamp_", "args": (-0.5, 0.5)},
        {"name": "copysign_", "args": (-1.0,)},
        {"name": "cumsum_", "args": (0,)},
        {"name": "fill_diagonal_", "args": (5.0,)},
        {"name": "floor_divide_", "args": (0.5,)},
        {"name": "nan_to_num_", "args": ()},
        {"name": "relu_", "args": ()},
        {"name": "tril_", "args": ()},
    ],
    dynamic=BATCH,
)


class Counting(nn.Module):
    """Writes to its buffers."""

    steps: torch.Tensor
    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.cache[: x.shape[0]] = x
        return self.cache.sum(0) * self.steps + x


write_buffers = op(Counting, floats(3, 4), dynamic=BATCH, sizes={"batch": (1, 5)}, train=True)

# --- autograd functions, modes ----------------------------------------------------------------------------------------


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(x)
        return x.exp() * by, x[: x.shape[0] - 1]


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)


class Clamping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.clamp_(min=0)


def autocast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            return torch.softmax(y.float(), -1) @ w.t().float()


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    with torch.inference_mode():
        z = y + 1
    with torch.enable_grad():
        return z * 3


def applied(x: torch.Tensor, function: Any, *more: Any) -> Any:
    return function.apply(x * 2, *more)


def unit(row: torch.Tensor) -> torch.Tensor:
    scaled: torch.Tensor = row / row.norm()
    return scaled


class Calling(TorchFunctionMode):
    """Sees every function, and changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def reachable(mask: torch.Tensor) -> torch.Tensor:
    def sees(row: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= query) & row.any()

    of_keys = torch.vmap(sees, in_dims=(None, None, 0))
    of_queries = torch.vmap(of_keys, in_dims=(None, 0, None))
    places = torch.arange(mask.shape[1])
    with Calling():
        result: torch.Tensor = torch.vmap(of_queries, in_dims=(0, None, None))(mask, places, places)
    return result


def by_rank(row: torch.Tensor) -> torch.Tensor:
    return row.gather(0, row.argsort()) * torch.stack([row.sum(), row[0]]).repeat_interleave(2)


def written_in_rows(x: torch.Tensor) -> torch.Tensor:
    def first_halved(row: torch.Tensor) -> torch.Tensor:
        row[0] /= 2
        return row.index_select(0, torch.tensor([1, 0]))

    copied = x.clone()
    result: torch.Tensor = torch.vmap(first_halved, out_dims=1)(copied)
    return result.t() + copied[:, :2]


def cubes(x: torch.Tensor) -> torch.Tensor:
    return (x**3).sum()


autograd_with_context = op(lambda x: applied(x, WithContext, 0.5), floats(3, 4), dynamic=BATCH, sizes={"batch": (2, 5)})
autograd_with_setup = op(lambda x, y: applied(x, WithSetup, y) + 1, floats(3, 4), floats(3, 4), dynamic=BATCHES)
autograd_in_place = op(applied, floats(3, 4), function=Clamping, dynamic=BATCH)
under_autocast = op(
    autocast,
    floats(3, 4),
    floats(4, 2),
    dtypes=[torch.float32],
    dynamic={"x0": {0: "batch"}},
    tolerance=0.05,
    because="the program computes in bfloat16",
)
gradient_modes = op(without_gradients, floats(3, 4), dynamic=BATCH)
checkpointed = op(
    lambda x: torch.utils.checkpoint.checkpoint(lambda t: F.gelu(t) * 2, x, use_reentrant=False),
    floats(3, 4),
    dynamic=BATCH,
)
vmapped = op(torch.vmap(unit), floats(3, 4), dynamic=BATCH)
# torch's own rules for one more axis do not take dynamic sizes.
vmapped_as_a_loop = op(torch.vmap(by_rank), floats(3, 4), dynamic=BATCH)
vmapped_with_writes = op(written_in_rows, floats(3, 4), dynamic=BATCH)
vmapped_in_chunks = op(torch.vmap(unit, chunk_size=2), floats(3, 4), dynamic=BATCH)
vmapped_in_a_mode = op(reachable, bools(3, 5), dynamic={"x": {0: "batch", 1: "tokens"}})
gradient_of = op(torch.func.grad(cubes), floats(3, 4), dynamic=BATCH)

# --- modules ----------------------------------------------------------------------------------------------------------


def hooked() -> nn.Module:
    model = nn.Linear(4, 2)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    model.register_forward_hook(lambda module, args, output: output * 2)
    return model


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.output = nn.Linear(5, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.output(self.embedding(indices))
        return logits


class Built(nn.Module):
    """A module made by a given function."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.inner = make()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


class Half(nn.Module):
    """Layers in the dtype of the cell."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


def weight_normed() -> Any:
    return parametrizations.weight_norm(nn.Linear(4, 2))


def spectral_normed() -> nn.Module:
    return parametrizations.spectral_norm(nn.Linear(4, 2)).eval()


def data_parallel() -> nn.Module:
    return nn.DataParallel(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))


def shared_layer() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer)


def compiled() -> Any:
    return torch.compile(nn.Linear(4, 4), backend="eager")


class Tables(nn.Module):
    """Weights that are large enough to be written beside the model, as cells at one opset have them."""

    def __init__(self, of: tuple[torch.dtype, ...]) -> None:
        super().__init__()
        for number, dtype in enumerate(of):
            self.register_buffer(f"table{number}", torch.arange(-600, 600).fmod(101).reshape(100, 12).to(dtype))

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(table[rows] for table in self.buffers())


modules = op(
    Built,
    floats(3, 4),
    make=[hooked, weight_normed, spectral_normed, data_parallel, shared_layer, compiled],
    dynamic=BATCH,
)
weights_apart = op(
    Tables,
    ints(3, high=100),
    of=[
        (torch.float32, torch.float64, torch.float16, torch.complex64),
        (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        (torch.bfloat16,),
    ],
    dynamic=BATCH,
)
tied_weights = op(Tied, ints(3, 2, high=7), dynamic=BATCH)
low_precision = op(Half, floats(3, 4), dtypes=[torch.float16, torch.bfloat16], dynamic=BATCH)
constant_table = op(lambda x, table: x @ table, floats(3, 4), table=given([[1.0], [2.0], [3.0], [4.0]], constant=True))
#: A weight of one element, whose stride is not 1, is computed from another one when the model is written.
one_element_of_a_column = op(
    lambda x, table: (x, torch.softmax(table.unbind(1)[0].split((2, 1))[1], -1)),
    floats(3, 4),
    table=given([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], constant=True),
)
