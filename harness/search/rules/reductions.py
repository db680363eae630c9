"""Reductions, running totals, and orders of elements."""

from __future__ import annotations

import torch

from onnx_parity.harness.search.draft import Draft, Value
from onnx_parity.harness.search.rules.register import rule

_NARROW = (torch.float16, torch.bfloat16)


def _nonempty(value: Value) -> bool:
    return value.tensor.numel() > 0 < value.other.numel()


def _keeping(d: Draft) -> str:
    return d.of(["", ", keepdim=True"])


@rule(5)
def reduction(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(1, 4), where=_nonempty), -200, 200)
    axes = d.random.sample(range(x.rank), d.random.randint(1, x.rank))
    axis, some = d.axis(x), axes[0] if len(axes) == 1 else tuple(axes)
    keep = _keeping(d)
    d.add(
        d.of(
            [
                f"{{0}}.sum({some}{keep})", f"{{0}}.mean({some}{keep})", "{0}.sum()", "{0}.mean()",
                f"torch.amax({{0}}, {some}{keep})", f"torch.amin({{0}}, {some}{keep})", "{0}.max()", "{0}.min()",
                f"torch.tanh({{0}}).prod({axis}{keep})", f"torch.logsumexp({{0}}, {some}{keep})",
                f"torch.linalg.vector_norm({{0}}, 2, {some}{keep})", f"{{0}}.norm(1, {axis}{keep})",
                f"torch.linalg.vector_norm({{0}}, inf, {some}{keep})", f"torch.nansum({{0}}, {some}{keep})",
                f"torch.count_nonzero({{0}}, {axis})",
            ]
        ),
        x,
    )  # fmt: skip


@rule(1.5)
def spread(d: Draft) -> None:
    """Variances need two elements, and some of their differences from the mean not to be rounding."""
    x = d.value("float", ranks=(1, 4), where=lambda value: _nonempty(value) and max(value.shape) > 1 and _varied(value))
    axes = [axis for axis in range(x.rank) if min(x.shape[axis], x.other.shape[axis]) > 1]
    if axes:
        axis = d.axis(x, axes)
        d.add(
            d.of(
                [
                    f"{{0}}.var({axis})",
                    f"{{0}}.std({axis}, correction=0, keepdim=True)",
                    f"torch.var_mean({{0}}, {axis})[0]",
                ]
            ),
            x,
        )


def _varied(value: Value) -> bool:
    low, high = value.range()
    return high - low > 0.05 * max(abs(low), abs(high))


@rule(2)
def reduction_of_ints(d: Draft) -> None:
    x = d.value("int" if d.chance(0.6) else "bool", ranks=(1, 4), where=_nonempty)
    axis, keep = d.axis(x), _keeping(d)
    texts = [
        f"{{0}}.sum({axis}{keep})", f"{{0}}.any({axis}{keep})", f"{{0}}.all({axis}{keep})", "{0}.sum()", "{0}.any()",
        f"torch.cumsum({{0}}, {axis})", f"torch.amax({{0}}, {axis}{keep})",
    ]  # fmt: skip
    if x.dtype is not torch.bool:
        texts += [f"({{0}} % 3).prod({axis}{keep})", f"{{0}}.max({axis}{keep}).values", "{0}.float().mean()"]
    d.add(d.of(texts), d.within(x, -1000, 1000) if x.dtype is not torch.bool else x)


@rule(2.5)
def softmax(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(1, 4), where=_nonempty), -30, 30)
    axis = d.axis(x)
    d.add(
        d.of(
            [
                f"torch.softmax({{0}}, {axis})", f"F.log_softmax({{0}}, {axis})", f"F.softmin({{0}}, {axis})",
                f"F.normalize({{0}}, dim={axis})", f"torch.softmax({{0}}, {axis}, dtype=torch.float32)",
            ]
        ),
        x,
    )  # fmt: skip


@rule(1.5)
def running(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(1, 3), where=lambda value: value.dtype not in _NARROW), -20, 20)
    axis = d.axis(x)
    texts = [
        f"torch.cumsum({{0}}, {axis})",
        f"torch.cumprod(torch.tanh({{0}}), {axis})",
        f"torch.diff({{0}}, dim={axis})",
    ]
    if _nonempty(x):
        texts += [f"torch.cummax({{0}}, {axis}).values", f"torch.logcumsumexp({{0}}, {axis})"]
    if x.shape[axis] == 0:
        texts.pop(2)
    d.add(d.of(texts), x)


def _distinct(value: Value) -> bool:
    """Whether no two elements are nearly equal, so that there is one order of them."""
    for tensor in (value.tensor, value.other):
        order = tensor.flatten().double().sort().values
        if not order.numel() or not torch.isfinite(order).all():
            return False
        if (order.diff() <= 1e-2 * order[:-1].abs().clamp(min=1e-2)).any():
            return False
    return True


@rule(4)
def ordering(d: Draft) -> None:
    found = [
        each
        for each in d.values.values()
        if each.is_float and each.rank and each.tensor.numel() < 60 and _distinct(each)
    ]
    if found and d.chance(0.7):
        x = d.random.choice(found)
        x.uses += 1
    else:
        shape = [d.random.choice([1, 2, 3, 4]) for _ in range(d.random.randint(1, 3))]
        x = d.fresh("number" if d.chance(0.2) else "float", shape, distinct=True)
    axis, keep, down = d.axis(x), _keeping(d), d.of(["", ", descending=True"])
    many = d.random.randint(1, min(x.shape[axis], x.other.shape[axis]))
    text, makes = d.random.choice(
        [
            (f"torch.argmax({{0}}, {axis}{keep})", 1),
            (f"torch.argmin({{0}}, {axis}{keep})", 1),
            ("torch.argmax({0})", 1),
            (f"torch.sort({{0}}, {axis}{down})", 2),
            (f"torch.argsort({{0}}, {axis}{down})", 1),
            (f"torch.topk({{0}}, {many}, {axis})", 2),
            (f"torch.topk({{0}}, {many}, {axis}, largest=False)", 2),
            (f"torch.max({{0}}, {axis}{keep})", 2),
            (f"torch.min({{0}}, {axis}{keep})", 2),
            (f"torch.median({{0}}, {axis}{keep})", 2),
            (f"torch.kthvalue({{0}}, {many}, {axis}{keep})", 2),
        ]
    )
    d.add_all(text, x, makes=makes)
