"""Branches and loops that depend on values, and loops of Python, which are unrolled."""

from __future__ import annotations

from onnx_parity.harness.search.draft import Draft
from onnx_parity.harness.search.rules.register import rule


@rule(0.5)
def branch(d: Draft) -> None:
    x = d.within(
        d.value("float", ranks=(1, 3), where=lambda value: value.tensor.numel() > 0 < value.other.numel()), -20, 20
    )
    predicate = d.of(["{0}.sum() > 0.1", "{0}.amax() < 1.3", "{0}.mean() < {0}.amin() * 0.5"])
    one, other = d.random.sample(["a * 2", "a.sin() + 1", "a.clone()", "a - a.mean()", "torch.relu(a) * a", "-a"], 2)
    d.add(f"torch.cond({predicate}, lambda a: {one}, lambda a: {other}, ({{0}},))", x)


@rule(0.3)
def loop(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(0, 2)), -5, 5)
    turns = d.random.randint(0, 3)
    step = d.of(["a * 0.5 + 1", "torch.tanh(a)", "a + i", "a - a.mean()"])
    if not x.is_float or x.tensor.numel() * x.other.numel() == 0:
        return
    # A loop carries tensors whose dtype and shape stay.
    d.add(
        "torch._higher_order_ops.while_loop("
        f"lambda i, a: i < {turns}, lambda i, a: (i + 1, ({step}).to(a.dtype)), (torch.tensor(0), {{0}}))[1]",
        x,
    )


@rule(0.5)
def unrolled(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(1, 3)), -10, 10)
    d.add(
        f"sum({d.of(['{0} * i', '({0} + i).sin()', '{0}[..., :1] * i'])} for i in range(1, {d.random.randint(2, 4)}))",
        x,
    )
