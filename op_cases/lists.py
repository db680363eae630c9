"""Lists of any length, and tensors that may be None, as inputs and outputs of TorchScript."""

import torch
from torch import Tensor, nn

from onnx_parity.harness.case import BATCH, ListOf, OrNone, floats, ints, listed, model, op, scripted


@scripted
def sums_of_a_list(xs: list[Tensor]) -> tuple[Tensor, int, Tensor, Tensor]:
    total = torch.zeros_like(xs[0][0])
    for x in xs:
        total = total + x.sum(0)
    return total, len(xs), xs[-1] * 2, torch.cat(xs)


@scripted
def each_of_a_list(xs: list[Tensor]) -> list[Tensor]:
    kept = [xs[0]]
    for x in xs:
        if bool(x.sum() > 0):
            kept.append(x.exp())
    return [x * 2 for x in kept]


@scripted
def changed_list(xs: list[Tensor], i: Tensor) -> tuple[list[Tensor], Tensor]:
    """The order and the number of the tensors change."""
    xs = list(xs)
    xs.insert(0, xs[-1] * 2)
    last = xs.pop()
    xs += [last, xs[int(i) % len(xs)]]
    return xs, torch.stack([x.sum(0) for x in xs])


@scripted
def unlike(x: Tensor, n: Tensor) -> tuple[list[Tensor], Tensor]:
    """A list of tensors of different sizes, whose length is data-dependent."""
    parts: list[Tensor] = []
    for i in range(int(n)):
        parts.append(x[: i + 1] * i)
    if bool(x.sum() > 0):
        parts.append(x)
    return parts, torch.cat(parts) if len(parts) > 0 else x


@scripted
def maybe_found(x: Tensor) -> Tensor | None:
    found: Tensor | None = None
    if bool(x.sum() > 0):
        found = x.max(0)[0]
    return found


class Masked(nn.Module):
    """Applies a mask if there is one, and returns it too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.linear(x)
        if mask is not None:
            x = x * mask.sigmoid()
        return x, mask


_ALIKE, _RAGGED = listed(floats(2, 3), floats(2, 3)), listed(floats(2, 3), floats(4, 3), floats(3, 3))
script_list_in = op(sums_of_a_list, _ALIKE, dynamic={"x": ListOf()})
script_ragged_list_in = op(sums_of_a_list, _RAGGED, dynamic={"x": ListOf({0: "rows"})})
script_list_in_and_out = op(each_of_a_list, _ALIKE, dynamic={"x": ListOf()})
script_ragged_list_in_and_out = op(each_of_a_list, _RAGGED, dynamic={"x": ListOf({0: "rows"})})
script_list_changed = op(changed_list, _RAGGED, ints(high=9), dynamic={"x0": ListOf({0: "rows"})})
script_unlike_items = op(unlike, floats(6, 3), ints(high=5), dynamic={"x0": {0: "rows"}}, sizes={"rows": (5, 9)})
script_maybe_out = op(maybe_found, floats(3, 4), dynamic=BATCH)
script_mask = model(
    lambda: torch.jit.script(Masked()),
    floats(3, 4),
    floats(3, 4),
    dynamic={"x0": {0: "batch"}, "x1": OrNone({0: "batch"})},
    tier="smoke",
)
