"""Views and rearrangements, whose sizes follow from those of the operand."""

from __future__ import annotations

import torch

from onnx_parity.harness.search.draft import Draft, Value
from onnx_parity.harness.search.rules.register import rule


def _factors(d: Draft, number: int) -> list[int]:
    """Sizes whose product is the number."""
    if number <= 1 or d.chance(0.3):
        return [number]
    divisors = [each for each in range(1, number + 1) if number % each == 0]
    first = d.random.choice(divisors)
    return [first, *_factors(d, number // first)] if number // first > 1 else [first]


@rule(4)
def reshape(d: Draft) -> None:
    """Axes are merged and split. Where all sizes are fixed, all elements are divided into other axes."""
    x = d.value(ranks=(1, 5))
    how = d.of(["view", "reshape", "reshape"]) if x.tensor.is_contiguous() and x.other.is_contiguous() else "reshape"
    if len(x.fixed_axes) == x.rank:
        sizes = _factors(d, x.tensor.numel()) if x.tensor.numel() else [*x.shape, 1]
        text = list(map(str, sizes[:5]))
        if len(sizes) > 5 or (d.chance(0.4) and x.tensor.numel()):
            text[d.random.randrange(len(text))] = "-1"
    else:
        first = d.random.randrange(x.rank)
        last = d.random.randrange(first, x.rank)
        text = [x.size(axis) for axis in range(first)]
        merged = x.fixed_axes
        if all(axis in merged for axis in range(first, last + 1)):
            total = 1
            for axis in range(first, last + 1):
                total *= x.shape[axis]
            text += map(str, _factors(d, total) if total else [0])
        else:
            text.append(" * ".join(x.size(axis) for axis in range(first, last + 1)))
        text += [x.size(axis) for axis in range(last + 1, x.rank)]
        if d.chance(0.3) and x.tensor.numel() and x.other.numel():
            text[d.random.randrange(len(text))] = "-1"
        if len(text) > 6:
            return
    d.add(f"{{0}}.{how}({', '.join(text)})", x)


@rule(3)
def permute(d: Draft) -> None:
    x = d.value(ranks=(2, 5))
    order = d.random.sample(range(x.rank), x.rank)
    a, b = d.axis(x), d.axis(x)
    d.add(
        d.of(
            [
                f"{{0}}.permute({', '.join(map(str, order))})", f"{{0}}.transpose({a}, {b})",
                f"torch.movedim({{0}}, {a}, {b})", "{0}.mT", f"torch.swapaxes({{0}}, {a}, {b}).contiguous()",
            ]
        ),
        x,
    )  # fmt: skip


@rule(3)
def new_axis(d: Draft) -> None:
    x = d.value(ranks=(0, 4))
    ones = [axis for axis in x.fixed_axes if x.shape[axis] == 1]
    if ones and d.chance(0.5):
        d.add(f"{{0}}.squeeze({d.axis(x, ones)})", x)
    else:
        d.add(d.of([f"{{0}}.unsqueeze({d.random.randint(-x.rank - 1, x.rank)})", "{0}[None]", "{0}[..., None]"]), x)


@rule(3)
def expand(d: Draft) -> None:
    x = d.value(ranks=(0, 4), where=lambda value: value.tensor.numel() <= 200)
    sizes = [
        str(d.random.choice([2, 3])) if x.shape[axis] == 1 and not x.varies(axis) and d.chance(0.7) else "-1"
        for axis in range(x.rank)
    ]
    if d.chance(0.4) and x.rank < 4:
        sizes.insert(0, d.of(["1", "2", "3"]))
    if d.chance(0.7) and sizes:
        d.add(f"{{0}}.expand({', '.join(sizes)})", x)
    else:
        times = ", ".join(str(d.random.choice([1, 1, 2, 3])) for _ in range(x.rank)) or "2"
        d.add(d.of([f"{{0}}.repeat({times})", f"torch.tile({{0}}, ({times},))"]), x)


@rule(5)
def sliced(d: Draft) -> None:
    x = d.value(ranks=(1, 4))
    parts = []
    for axis in range(x.rank):
        size = min(x.tensor.shape[axis], x.other.shape[axis])
        choices = [":", ":", "1:", ":-1", "::2", "-2:", f"{size // 2}:", f":{size // 2 + 1}"]
        if size > 1:
            choices += [str(d.random.randrange(-size, size)), "1:-1" if size > 2 else ":1"]
        parts.append(d.of(choices))
    if d.chance(0.15):
        parts = [d.of([parts[0], "0:1"]), "..."] if x.shape[0] else ["..."]
    d.add(f"{{0}}[{', '.join(parts)}]", x)


@rule(2)
def flipped(d: Draft) -> None:
    x = d.value(ranks=(1, 4))
    axis = d.axis(x)
    d.add(
        d.of(
            [
                f"{{0}}.flip({axis})",
                f"torch.roll({{0}}, {d.random.choice([-2, -1, 1, 2])}, {axis})",
                f"{{0}}.flip(0).roll(1, {axis})",
            ]
        ),
        x,
    )


@rule(1.5)
def of_matrices(d: Draft) -> None:
    x = d.value(ranks=(2, 4))
    shift = d.random.randint(-1, 1)
    texts = [f"torch.tril({{0}}, {shift})", f"torch.triu({{0}}, {shift})"]
    if min(*x.shape[-2:], *x.other.shape[-2:]) > 1:
        texts += [f"torch.diagonal({{0}}, {shift}, -2, -1)", "torch.rot90({0}, 1, (-2, -1))"]
    d.add(d.of(texts), x)


def _alike(d: Draft, x: Value, free: int | None) -> list[Value]:
    """Values of the shape of another; their sizes of the free axis may differ."""

    def fits(value: Value) -> bool:
        return value.rank == x.rank and all(
            axis == free or (value.shape[axis], value.other.shape[axis]) == (x.shape[axis], x.other.shape[axis])
            for axis in range(x.rank)
        )

    return [each for each in d.values.values() if each is not x and fits(each)]


@rule(4)
def joined(d: Draft) -> None:
    x = d.value(ranks=(1, 4))
    axis = d.random.randrange(x.rank)
    others = _alike(d, x, axis)
    y = d.random.choice(others) if others and d.chance(0.8) else d.like(x, "any")
    y.uses += 1
    names = ["{0}", "{1}", "{0}"][: 3 if d.chance(0.2) else 2]
    texts = [f"torch.cat(({', '.join(names)}), {axis})"]
    if (y.shape, y.other.shape) == (x.shape, x.other.shape):
        texts += [f"torch.stack(({', '.join(names)}), {d.random.randint(-x.rank - 1, x.rank)})"]
        if x.dtype == y.dtype:
            texts += ["torch.hstack(({0}, {1}))", "torch.vstack(({0}, {1}))", "torch.dstack(({0}, {1}))"]
    d.add(d.of(texts), x, y)


@rule(2.5)
def taken_apart(d: Draft) -> None:
    x = d.value(ranks=(1, 4), where=lambda value: any(value.shape[axis] > 1 for axis in value.fixed_axes))
    axis = d.axis(x, [axis for axis in x.fixed_axes if x.shape[axis] > 1])
    size = x.shape[axis]
    first = d.random.randint(1, size - 1)
    if d.chance(0.5):
        d.add_all(f"torch.split({{0}}, ({first}, {size - first}), {axis})", x, makes=2)
    elif d.chance(0.5):
        d.add_all(f"torch.chunk({{0}}, 2, {axis})", x, makes=2)
    elif size <= 4:
        d.add_all(f"torch.unbind({{0}}, {axis})", x, makes=size)
    else:
        d.add(f"torch.tensor_split({{0}}, {first}, {axis})[{d.random.randrange(first)}]", x)


@rule(1.5)
def windows(d: Draft) -> None:
    x = d.value(ranks=(1, 3), where=lambda value: any(value.shape[axis] >= 2 for axis in value.fixed_axes))
    axis = d.axis(x, [axis for axis in x.fixed_axes if x.shape[axis] >= 2])
    size = d.random.randint(1, x.shape[axis])
    start = d.random.randint(0, x.shape[axis] - size)
    d.add(
        d.of([f"{{0}}.unfold({axis}, {size}, {d.random.randint(1, 3)})", f"{{0}}.narrow({axis}, {start}, {size})"]), x
    )


@rule(2)
def padded(d: Draft) -> None:
    x = d.value("any" if d.chance(0.3) else "float", ranks=(1, 4))
    amounts = [d.random.choice([-1, 0, 1, 2]) for _ in range(2 * d.random.randint(1, min(x.rank, 2)))]
    for place, amount in enumerate(amounts):
        # What is cut off from both sides together must leave something of the axis.
        axis = x.rank - 1 - place // 2
        if amount < 0 and min(x.shape[axis], x.other.shape[axis]) < 3:
            amounts[place] = 0
    d.add(f"F.pad({{0}}, {tuple(amounts)}, value={'True' if x.dtype is torch.bool else d.number(x.dtype)})", x)


@rule(1.5)
def padded_by_itself(d: Draft) -> None:
    """Reflection pads by less than the size, circular padding by no more than it."""
    x = d.value("float", ranks=(2, 4), where=lambda value: value.tensor.numel() > 0 < value.other.numel())
    size = min(x.shape[-1], x.other.shape[-1])
    mode = d.of(["replicate", "circular", "reflect"])
    most = {"replicate": 3, "circular": size, "reflect": size - 1}[mode]
    amounts = [d.random.randint(0, min(most, 3)), d.random.randint(0, min(most, 3)), *([0, 0] if x.rank == 4 else [])]
    d.add(f"F.pad({{0}}, {tuple(amounts)}, mode={mode!r})", x)
