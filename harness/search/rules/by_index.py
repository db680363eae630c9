"""Reading and scattering by indices, which are drawn within the axis that they are for."""

from __future__ import annotations

import torch

from onnx_parity.harness.search.draft import Draft, Value
from onnx_parity.harness.search.rules.register import rule

_INT64 = torch.int64


def _indexable(value: Value) -> bool:
    return any(min(value.shape[axis], value.other.shape[axis]) > 0 for axis in range(value.rank))


def _axis_and_size(d: Draft, x: Value) -> tuple[int, int]:
    axis = d.axis(x, [axis for axis in range(x.rank) if min(x.shape[axis], x.other.shape[axis]) > 0])
    return axis, min(x.shape[axis], x.other.shape[axis])


def _indices(d: Draft, size: int, shape: list[int], *, negative: bool = True) -> Value:
    return d.fresh("int", shape, low=-size if negative and d.chance(0.3) else 0, high=size, dtype=_INT64)


@rule(3)
def indexed(d: Draft) -> None:
    x = d.value(ranks=(1, 4), where=_indexable)
    axis, size = _axis_and_size(d, x)
    count = d.random.choice([1, 2, 3, 5])
    if d.chance(0.4):
        d.add(f"torch.index_select({{0}}, {axis}, {{1}})", x, _indices(d, size, [count], negative=False))
    else:
        before = ":, " * (axis % x.rank) if d.chance(0.7) else "..., "
        axis = axis % x.rank if before != "..., " else x.rank - 1
        size = min(x.shape[axis], x.other.shape[axis])
        if size:
            d.add(f"{{0}}[{before}{{1}}]", x, _indices(d, size, d.random.choice([[count], [2, count], []])))


@rule(2)
def indexed_by_two(d: Draft) -> None:
    x = d.value(ranks=(2, 4), where=lambda value: min(*value.shape, *value.other.shape) > 0)
    count = d.random.choice([1, 2, 3])
    first, second = (_indices(d, min(x.shape[axis], x.other.shape[axis]), [count]) for axis in (0, 1))
    d.add(
        d.of(["{0}[{1}, {2}]", "{0}[{1}[:, None], {2}]", "{0}[{1}, {2}[None]]", "{0}[{1}, 0]", "{0}[0, {2}]"]),
        x,
        first,
        second,
    )


@rule(2)
def gathered(d: Draft) -> None:
    x = d.value(ranks=(1, 3), where=lambda value: min(*value.shape, *value.other.shape) > 0)
    axis, size = _axis_and_size(d, x)
    shape = [min(x.shape[each], x.other.shape[each]) for each in range(x.rank)]
    shape[axis] = d.random.randint(1, 3)
    index = _indices(d, size, shape, negative=False)
    texts = [f"torch.gather({{0}}, {axis}, {{1}})"]
    if x.fixed_axes == list(range(x.rank)):
        texts.append(f"torch.take_along_dim({{0}}, {{1}}, {axis})")
    d.add(d.of(texts), x, index)


@rule(2)
def scattered(d: Draft) -> None:
    """Places are different ones: where one is written to twice, either value may stay."""
    x = d.value("number", ranks=(1, 3), where=lambda value: min(*value.shape, *value.other.shape) > 0)
    axis, size = _axis_and_size(d, x)
    shape = [min(x.shape[each], x.other.shape[each]) for each in range(x.rank)]
    number = d.number(x.dtype)
    if d.chance(0.5):
        index = d.fresh("int", [d.random.randint(1, size)], low=0, high=size, dtype=_INT64)
        d.add(
            d.of(
                [
                    f"{{0}}.index_fill({axis}, {{1}}, {number})",
                    f"{{0}}.index_add({axis}, {{1}}, {{0}}.index_select({axis}, {{1}}))",
                ]
            ),
            x,
            index,
        )
        return
    shape[axis] = 1
    index = _indices(d, size, shape, negative=False)
    d.add(
        d.of(
            [
                f"{{0}}.scatter({axis}, {{1}}, {number})",
                f"{{0}}.scatter_add({axis}, {{1}}, {{0}})",
                f"{{0}}.scatter_reduce({axis}, {{1}}, {{0}}, 'amax')",
                f"{{0}}.scatter({axis}, {{1}}, {{0}})",
            ]
        ),
        x,
        index,
    )


@rule(1)
def masked(d: Draft) -> None:
    x = d.value("number", ranks=(1, 3))
    mask = d.like(x, "bool")
    number = d.number(x.dtype)
    d.add(
        d.of(
            [
                f"{{0}}.masked_fill({{1}}, {number})",
                "torch.where({1}, {0}, 0)",
                "{0} * {1}",
                f"torch.index_put({{0}}, ({{1}},), torch.tensor({number}, dtype={{0}}.dtype))",
            ]
        ),
        x,
        mask,
    )


@rule(1)
def looked_up(d: Draft) -> None:
    rows = d.random.randint(1, 5)
    table = d.fresh("float", [rows, d.random.randint(1, 4)])
    index = _indices(d, rows, [d.random.randint(1, 3) for _ in range(d.random.randint(1, 2))], negative=False)
    d.add(d.of(["F.embedding({1}, {0})", f"F.one_hot({{1}}, {rows})", "{0}[{1}]"]), table, index)
