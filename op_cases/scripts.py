"""TorchScript: data-dependent branches and loops stay in the model. Each case also runs at other values and sizes.

TorchScript's compiler needs the annotations of the functions.
"""

import math

import torch
from torch import Tensor, nn

from onnx_parity.harness.case import BATCH, distinct, floats, ints, model, numbers, op, scripted

ROWS = {"x0": {0: "rows"}}

# --- the examples of torch.onnx's documentation -----------------------------------------------------------------------


@scripted
def looping(x: Tensor, y: Tensor) -> Tensor:
    for i in range(int(y)):
        x = x + i
    return x


class LoopModel2(nn.Module):
    """A module that is traced and calls a script."""

    def forward(self, x: Tensor, y: Tensor) -> object:
        return looping(x, y)


@scripted
def implicit_cast(x: Tensor) -> Tensor:
    y = x + 2
    return y + 3


@scripted
def indexed_assignment(data: Tensor, index: Tensor, new_data: Tensor) -> Tensor:
    data = data.clone()
    data[index] = new_data
    return data


@scripted
def unbound(x: Tensor) -> list[Tensor]:
    return list(x.unbind(0))


seed_loop = op(LoopModel2, ints(2, 3), ints(high=9), dynamic=ROWS)
seed_implicit_cast = op(implicit_cast, floats(1))
seed_indexed_assignment = op(indexed_assignment, floats(3, 4), ints(high=3), floats(4))
seed_unbind = op(unbound, floats(3, 3))

# --- branches ---------------------------------------------------------------------------------------------------------


@scripted
def two_ways(x: Tensor) -> tuple[Tensor, int, float, bool]:
    """Both branches return tensors and numbers."""
    if bool(x.sum() > 0):
        y, count, share, flag = x.sin(), 3, 0.25, True
    else:
        y, count, share, flag = x.cos() * 2, 4, float(x.mean()), False
    return y * share + count, count, share, flag


@scripted
def early_returns(x: Tensor) -> Tensor:
    if bool(x.sum() > 3):
        return x
    if bool(x[0, 0] > 0):
        x = x * 2
        if bool(x.max() > 1):
            return x - 1
    return x.exp()


@scripted
def by_size(x: Tensor) -> Tensor:
    """A dynamic size decides, when the model runs."""
    if x.size(0) > 4:
        return x.mean(0)
    if x.size(0) == 1:
        return x[0] * 3
    return x.sum(0)


@scripted
def other_sizes(x: Tensor) -> Tensor:
    """The branches return tensors of different sizes."""
    y = x[:2]
    if bool(x.sum() > 0):
        y = torch.cat([x, x])
    return y * 2


@scripted
def writes_in_a_branch(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    row = y[1]
    if bool(x.sum() > 0):
        y[0] = x[0] * 2
        y.add_(1)
    else:
        y[:, 1] = 5.0
    return y + row


@scripted
def kept_state(x: Tensor, state: Tensor) -> Tensor:
    """A branch that the example does not take needs another size of the state than that of the example."""
    kept = torch.zeros(2, x.size(0), 3)
    if state.size(0) == 0:
        kept[:] = torch.ones(x.size(0), 3)
    elif state.size(0) == 1:
        kept[:] = state * 2 + kept
    return kept


@scripted
def optional(x: Tensor, flag: Tensor) -> Tensor:
    """The values decide whether it is None or a tensor."""
    kept: Tensor | None = None
    if bool(flag > 0):
        kept = x * 2
    if kept is None:
        return x - 1
    return kept + 1


@scripted
def checked(x: Tensor, mode: str = "double") -> Tensor:
    """Assertions hold, and strings are known at export."""
    assert x.numel() < 10**6, f"too many: {x.numel()}"
    if bool(x.abs().sum() < 0):
        raise ValueError("impossible")
    names = {"double": 2.0, "half": 0.5}
    if mode in names:
        return x * names[mode]
    raise ValueError("no such mode: " + mode)


@scripted
def conditions(x: Tensor, n: Tensor) -> Tensor:
    """and, or, not, chained comparisons and arithmetic of data-dependent numbers."""
    k = int(n)
    half = k / 2
    if (k > 2 and half < 4.5) or not bool(k % 2):
        x = x * half
    elif -3 <= k // 2 <= 0:
        x = x + math.sqrt(float(k + 10))
    m = k if k > 4 else 4
    return x + m * 0.5 + max(k, 3) - min(k, m) + abs(k - 5) + k**2


script_if = op(two_ways, floats(3, 4), dynamic=BATCH)
script_early_return = op(early_returns, floats(3, 4), dynamic=BATCH)
script_if_size = op(by_size, floats(3, 4), dynamic=BATCH, sizes={"batch": (1, 4, 5, 9)})
script_if_other_sizes = op(other_sizes, floats(3, 4))
script_if_state = op(
    kept_state,
    floats(1, 3),
    state=floats(0, 0, 0),
    dynamic={"state": {0: "states", 1: "rows", 2: "columns"}},
    sizes={"states": (1, 1, 2), "rows": (1, 1, 5), "columns": (3, 1, 7)},
)
script_if_writes = op(writes_in_a_branch, floats(3, 4))
script_optional = op(optional, floats(3, 4), flag=ints(low=-2, high=3))
script_checked = op(checked, floats(3, 4), mode=["double", "half"])
script_conditions = op(conditions, floats(3, 4), ints(low=-6, high=12))

# --- loops ------------------------------------------------------------------------------------------------------------


@scripted
def until(x: Tensor) -> tuple[Tensor, int]:
    count = 0
    while bool(x.abs().sum() < 40) and count < 50:  # The sum of an empty tensor stays 0, so the count ends the loop.
        x = x * 2 + 1
        count += 1
    return x, count


@scripted
def breaks(x: Tensor, n: Tensor) -> Tensor:
    total = torch.zeros_like(x[0])
    for i in range(int(n)):
        if i == 1:
            continue
        total = total + x[0].abs() * i
        if bool(total.sum() > 8):
            break
    return total


@scripted
def returns_from_a_loop(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        if bool(x.max() > 2 + i):
            return x * 10
        x = x + 1
    return x - 1


@scripted
def nested(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, float]:
    step = 0.5
    for i in range(int(n)):
        for j in range(i, int(m), 2):
            x = x + i * j * step
        step = step * 2
    return x, step


@scripted
def grows(x: Tensor, n: Tensor) -> Tensor:
    """The loop-carried tensor has another size after each iteration."""
    for i in range(int(n)):
        x = torch.cat([x, x[:1] * i])
    return x


@scripted
def carries_structures(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    pair = (x, x * 2)
    named = {"a": x + 1, "b": x - 1}
    both = [x, -x]
    for i in range(int(n)):
        pair = (pair[1], pair[0] + i)
        named["a"] = named["a"] + named["b"]
        both[i % 1] = both[1] * 2
    return pair[0], named["a"], both[0]


@scripted
def writes_rows(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(x.size(0)):
        y[i] = x[i] * 2 + i
    return y


@scripted
def writes_rows_before(x: Tensor) -> Tensor:
    y = x.clone()
    for i in range(x.size(0)):
        y[i - 1] = y[i] * 2
        y[:, i - 2] += 1
    return y


@scripted
def best(x: Tensor, n: Tensor) -> Tensor:
    """None before the loop, a tensor after the first iteration."""
    found: Tensor | None = None
    for i in range(int(n)):
        value = x * i - 3
        if found is None or bool(value.sum() > found.sum()):
            found = value
    if found is None:
        return x
    return found


@scripted
def known_loops(x: Tensor) -> Tensor:
    """The number of iterations is known: few iterations are unrolled, many become a loop."""
    for i in range(3):
        x = x + i
    for j in range(200):
        x = x * 1.01 - j * 0.001
    while x.size(1) < 7:
        x = torch.cat([x, x.new_ones(x.size(0), 1)], 1)
    return x


@scripted
def suppresses(boxes: Tensor, scores: Tensor) -> Tensor:
    """Greedy non-maximum suppression: each iteration has fewer boxes left, also where the input has a fixed number."""
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.1], 1)
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    order = scores.argsort(descending=True)
    kept: list[Tensor] = []
    while order.numel() > 0:
        best = order[0]
        kept.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        least = torch.max(corners[best, :2], corners[rest, :2])
        most = torch.min(corners[best, 2:], corners[rest, 2:])
        sides = (most - least).clamp(min=0)
        common = sides[:, 0] * sides[:, 1]
        order = rest[common / (area[best] + area[rest] - common) <= 0.1]
    return torch.stack(kept)


@scripted
def masks_by_lengths(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Writes into a view that begins at a place that depends on values, as DeepSpeech masks its convolutions."""
    mask = torch.zeros(x.size(), dtype=torch.bool)
    for i, length in enumerate(lengths):
        n = int(length.item())
        if mask[i].size(1) - n > 0:
            mask[i].narrow(1, n, mask[i].size(1) - n).fill_(True)
    y = x.clone()
    for i, row in enumerate(y):
        row[:, int(lengths[i]) :].mul_(2.0)
    y.narrow(2, -1, 1).add_(1.0)
    y.narrow(2, 0, int(lengths[0])).sub_(1.0)
    return x.masked_fill(mask, 0.0), y


script_while = op(until, floats(3, 4), dynamic=BATCH)
script_break = op(breaks, floats(3, 4), ints(high=6))
script_return_from_loop = op(returns_from_a_loop, floats(3, 4), ints(high=6))
script_nested_loops = op(nested, floats(3, 4), ints(high=4), ints(high=7))
script_growing = op(grows, floats(2, 3), ints(high=5), dynamic=ROWS)
script_structures = op(carries_structures, floats(2, 3), ints(high=5))
script_rows = op(writes_rows, floats(3, 4), dynamic=BATCH)
script_rows_before = op(writes_rows_before, floats(3, 4), dynamic=BATCH)
script_suppression = op(suppresses, floats(5, 4), distinct(5))
script_suppression_dynamic = op(
    suppresses, floats(5, 4), distinct(5), dynamic={"x0": {0: "boxes"}, "x1": {0: "boxes"}}, sizes={"boxes": (1, 2, 9)}
)
script_masks_by_lengths = op(masks_by_lengths, floats(2, 3, 5), ints(2, high=6))
script_masks_by_lengths_dynamic = op(
    masks_by_lengths, floats(2, 3, 5), ints(2, high=6), dynamic={"x0": {0: "rows", 2: "steps"}, "x1": {0: "rows"}},
    sizes={"steps": (6, 9)},
)  # fmt: skip
script_best = op(best, floats(2, 3), ints(high=5))
script_known_loops = op(known_loops, floats(2, 3))

# --- lists ------------------------------------------------------------------------------------------------------------


@scripted
def collects(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor, int]:
    items: list[Tensor] = []
    sizes: list[int] = []
    for i in range(int(n) + 1):
        items.append(x * i)
        sizes.append(i * 2)
    return torch.stack(items, 1), torch.tensor(sizes), len(items)


@scripted
def comprehends(x: Tensor) -> Tensor:
    return torch.cat([row * 2 for row in x])


@scripted
def looks_back(x: Tensor, n: Tensor) -> Tensor:
    """Reads the list that it appends to."""
    states = [x]
    for i in range(int(n)):
        states.append(torch.tanh(states[-1] + i))
    return torch.cat(states, 1)


@scripted
def appends_sometimes(x: Tensor) -> Tensor:
    kept = [x[0]]
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            kept.append(x[i])
    return torch.stack(kept)


@scripted
def enumerates(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[0])
    for i, (a, b) in enumerate(zip(x.unbind(0), [x[0], x[1], x[0]])):  # noqa: B905  TorchScript knows no strict
        total = total + a * b * i
    return total


@scripted
def lists_of_unknown_length(x: Tensor, n: Tensor) -> tuple[list[Tensor], list[int], Tensor]:
    rows: list[Tensor] = []
    for i in range(int(n)):
        rows.append(x * i)
    return rows, [len(rows) * 2 + k for k in range(int(n))], x


@scripted
def backwards(x: Tensor) -> Tensor:
    """Iterates from the last step to the first, and returns the results in the order of the sequence."""
    total = torch.zeros_like(x[0])
    totals: list[Tensor] = []
    for i in range(x.size(0) - 1, -1, -1):
        total = total * 0.5 + x[i]
        totals.append(total)
    totals = totals[::-1]
    return torch.stack(totals)


@scripted
def decodes(logits: Tensor, longest: int) -> tuple[Tensor, int]:
    """Decodes words until all sequences have ended."""
    batch = logits.size(0)
    words = torch.zeros([batch, longest], dtype=torch.long, device=logits.device)
    ended = torch.zeros([batch], dtype=torch.bool, device=logits.device)
    step = 0
    while step < longest and not bool(ended.all()):
        word = (logits * (step + 1)).sin().argmax(-1)
        words[:, step] = torch.where(ended, torch.zeros_like(word), word)
        ended = ended | (word == 2)
        step += 1
    return words, step


script_backwards = op(backwards, floats(4, 3), dynamic=BATCH)
script_decodes = op(decodes, floats(3, 4), longest=5, dynamic=BATCH)
script_returns_list = op(lists_of_unknown_length, floats(2, 3), ints(high=5))
script_list = op(collects, floats(2, 3), ints(high=5))
script_comprehension = op(comprehends, floats(3, 4), dynamic=BATCH)
script_list_read = op(looks_back, floats(2, 3), ints(high=5))
script_list_conditional = op(appends_sometimes, floats(5, 3), dynamic=BATCH)
script_enumerate = op(enumerates, floats(3, 4))

# --- numbers and sizes ------------------------------------------------------------------------------------------------


@scripted
def numbers_as_sizes(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor, float]:
    k = int(n) + 1
    m = k * 2 if k > 3 else k
    return torch.zeros(m, 2, device=x.device) + m, x[:, :k], float(m) / 3


@scripted
def numbers_beside_tensors(x: Tensor, i: Tensor, f: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A number does not change a tensor's dtype, even one that was computed from a tensor."""
    k, s = int(i), float(f)
    return x * s, x + k, i * s, torch.where(x > s, x, x * k)


script_sizes = op(numbers_as_sizes, floats(3, 9), ints(high=7), dynamic=ROWS)
script_promotion = op(
    numbers_beside_tensors, numbers(3, 4), ints(high=7), floats(), dtypes=[torch.float32, torch.float16, torch.float64]
)

# --- modules ----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    @torch.jit.export
    def gate(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) if bool(x.sum() > 0) else x * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(x) + 1


class Blocks(nn.Module):
    """Modules in a list, with a method of their own, and a norm in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        normed: Tensor = self.norm(x)
        return normed


class Cell(nn.Module):
    """A recurrent cell over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.zeros(x.size(1), 4, dtype=x.dtype, device=x.device)
        states: list[Tensor] = []
        for i in range(x.size(0)):
            state = self.cell(x[i], state)
            states.append(state)
        return torch.stack(states), state


script_module = model(lambda: torch.jit.script(Blocks()), floats(4, 3), dynamic=BATCH, tier="smoke")
# onnx.reference stacks the states of an empty batch wrongly.
_STEPS = {"x": {0: "steps", 1: "batch"}}
script_cell = model(
    lambda: torch.jit.script(Cell()), floats(5, 2, 3), dynamic=_STEPS, sizes={"batch": [1, 5]}, tier="smoke"
)
