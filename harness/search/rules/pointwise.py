"""Elementwise operators, which broadcast their operands and promote their dtypes."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.search.draft import KINDS, Draft, Value
from onnx_parity.harness.search.rules.register import rule

#: Functions of one tensor of floats, with the range of elements for which they are defined and do not overflow.
_WIDE = (-40.0, 40.0)
_UNARY = {
    **dict.fromkeys(
        [
            "torch.relu", "torch.sigmoid", "torch.tanh", "torch.sin", "torch.cos", "torch.abs", "torch.neg", "F.silu",
            "F.gelu", "F.softplus", "torch.erf", "F.hardswish", "F.hardsigmoid", "F.elu", "F.selu", "F.mish",
            "torch.atan", "torch.asinh", "torch.sign", "F.softsign", "F.relu6", "F.logsigmoid", "F.tanhshrink",
            "F.hardtanh", "torch.square", "torch.sinc", "torch.erfc", "torch.positive", "F.leaky_relu", "F.celu",
            "torch.deg2rad", "torch.nan_to_num", "torch.isnan", "torch.isfinite", "torch.signbit", "torch.logical_not",
        ],
        _WIDE,
    ),
    **dict.fromkeys(["torch.exp", "torch.exp2", "torch.sinh", "torch.cosh", "torch.expm1"], (-9.0, 6.0)),
    **dict.fromkeys(
        ["torch.log", "torch.log2", "torch.log10", "torch.rsqrt", "torch.reciprocal", "torch.lgamma", "torch.digamma"],
        (0.1, math.inf),
    ),
    "torch.sqrt": (0.05, math.inf),
    "torch.log1p": (-0.9, math.inf),
    **dict.fromkeys(["torch.acos", "torch.asin", "torch.atanh", "torch.erfinv"], (-0.9, 0.9)),
    "torch.acosh": (1.1, math.inf),
    "torch.tan": (-1.3, 1.3),
    "torch.logit": (0.05, 0.95),
    "torch.i0": (-4.0, 4.0),
    "torch.special.entr": (0.05, 8.0),
    "torch.special.ndtr": _WIDE,
}  # fmt: skip
_ROUNDING = [f"torch.{name}({{0}})" for name in ("floor", "ceil", "round", "trunc", "frac")]
_COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]


@rule(8)
def unary(d: Draft) -> None:
    name = d.of(list(_UNARY))
    d.add(f"{name}({{0}})", d.within(d.value("float"), *_UNARY[name]))


@rule(1)
def unary_with_number(d: Draft) -> None:
    x = d.within(d.value("float"), -30, 30)
    d.add(
        d.of(
            [
                "F.elu({0}, alpha=0.7)", "F.leaky_relu({0}, 0.2)", "F.gelu({0}, approximate='tanh')",
                "F.hardshrink({0}, 0.3)", "F.softshrink({0}, 0.4)", "F.threshold({0}, 0.1, -2.0)",
                "{0}.clamp(-1.5, 2.0)", "{0}.clamp(min=0.25)", "F.softplus({0}, beta=2.0, threshold=3.0)",
                "torch.nan_to_num({0}, 0.5)", "{0} ** 2", "{0} ** 3", "1.5 - {0}", "torch.rsub({0}, 2, alpha=3)",
                "{0} * {0}", "torch.mvlgamma({0}.abs() + 3, 2)",
            ]
        ),
        x,
    )  # fmt: skip


@rule(2)
def rounding(d: Draft) -> None:
    x = d.within(d.value("float"), -100, 100)
    d.add(d.of([*_ROUNDING, "torch.round({0}, decimals=1)"]), x)


@rule(2)
def unary_of_ints(d: Draft) -> None:
    x = d.within(d.value("int"), -100, 100) if d.chance(0.8) else d.value("int")
    d.add(
        d.of(
            [
                "torch.abs({0})", "torch.neg({0})", "~{0}", "torch.sign({0})", "{0}.clamp(1, 3)", "torch.square({0})",
                "torch.relu({0})", "{0} << 1", "{0} >> 1", "torch.sqrt({0}.abs())", "torch.exp({0} % 4)", "{0} / 3",
                "{0} // 3", "{0} % 3", "{0} % -3", "torch.fmod({0}, 2)", "{0}.bitwise_and(5)", "{0} ** 2",
            ]
        ),
        x,
    )  # fmt: skip


def _partner(d: Draft, x: Value, kind: str) -> Value:
    """A value that can be broadcast with another: one of the program's, or a new input."""

    def fits(value: Value) -> bool:
        if value is x or value.rank + x.rank == 0:
            return value is not x
        pairs = zip(reversed(value.shape), reversed(x.shape), strict=False)
        others = zip(reversed(value.other.shape), reversed(x.other.shape), strict=False)
        if not all(a == b or 1 in (a, b) for a, b in (*pairs, *others)):
            return False
        return value.tensor.numel() * x.tensor.numel() <= 4000

    candidates = [each for each in d.values.values() if each.dtype in KINDS[kind] and fits(each)]
    if candidates and d.chance(0.75):
        chosen = d.random.choice(candidates)
        chosen.uses += 1
        return chosen
    return d.like(x, kind, broadcast=True)


def _pair(d: Draft, kind: str, bound: float = 1e3) -> tuple[Value, Value]:
    x = d.value(kind)
    return d.within(x, -bound, bound), d.within(_partner(d, x, kind), -bound, bound)


def _swapped(d: Draft, text: str, a: Value, b: Value) -> Value:
    return d.add(text, b, a) if d.chance(0.5) else d.add(text, a, b)


@rule(7)
def arithmetic(d: Draft) -> None:
    text = d.of(
        [
            "{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})",
            "torch.add({0}, {1}, alpha=2)", "torch.sub({0}, {1}, alpha=3)", "torch.lerp({0}, {1}, 0.3)",
            "torch.hypot({0}, {1})", "torch.copysign({0}, {1})", "torch.logaddexp({0}, {1})", "torch.fmax({0}, {1})",
            "torch.heaviside({0}, {1})",
        ]
    )  # fmt: skip
    if any(name in text for name in ("lerp", "hypot", "logaddexp", "heaviside")):
        a, b = _pair(d, "float")
        if a.dtype != b.dtype:
            b = d.add("{0}.to({1}.dtype)", b, a)
        d.add(text, a, b)
    else:
        _swapped(d, text, *_pair(d, "number" if d.chance(0.5) else "float"))


@rule(3)
def division(d: Draft) -> None:
    a, b = _pair(d, "number" if d.chance(0.5) else "float")
    b = d.within(b, 1, math.inf) if d.chance(0.7) else d.add("{0}.abs() + 1", b)
    text = d.of(
        [
            "{0} / {1}", "{0} // {1}", "{0} % {1}", "torch.fmod({0}, {1})",
            "torch.div({0}, {1}, rounding_mode='trunc')", "torch.div({0}, {1}, rounding_mode='floor')",
            "torch.atan2({0}, {1})", "torch.xlogy({0}, {1})", "torch.true_divide({0}, {1})",
        ]
    )  # fmt: skip
    d.add(text, a, b)


@rule(1.5)
def power(d: Draft) -> None:
    base, exponent = _pair(d, "float", 4)
    d.add(d.of(["{0} ** {1}", "torch.pow(2, {1})", "torch.float_power({0}, {1})"]), d.within(base, 0.2, 4), exponent)


@rule(1.5)
def of_three(d: Draft) -> None:
    a, b = _pair(d, "float", 30)
    dtype = torch.promote_types(a.dtype, b.dtype)
    c = d.like(a, broadcast=True) if d.chance(0.5) else a
    a, b, c = (each if each.dtype is dtype else d.add(f"{{0}}.to({dtype})", each) for each in (a, b, c))
    text = d.of(
        [
            "torch.addcmul({0}, {1}, {2}, value=0.5)",
            "torch.addcdiv({0}, {1}, {2}.abs() + 1, value=2.0)",
            "torch.clamp({0}, torch.minimum({1}, {2}), torch.maximum({1}, {2}))",
            "torch.lerp({0}, {1}, {2})",
            "torch.where({0} > 0.3, {1}, {2})",
        ]
    )
    d.add(text, a, b, c)


@rule(3)
def comparison(d: Draft) -> None:
    sign = d.of(_COMPARISONS)
    if d.chance(0.4):
        x = d.value("any")
        d.add(f"{{0}} {sign} {d.number(x.dtype)}", x)
    else:
        x = d.value("any")
        d.add(f"{{0}} {sign} {{1}}", x, _partner(d, x, "any"))


@rule(2)
def logical(d: Draft) -> None:
    x = d.value("bool")
    y = _partner(d, x, "bool")
    d.add(
        d.of(["{0} & {1}", "{0} | {1}", "{0} ^ {1}", "torch.logical_and({0}, {1})", "torch.logical_xor({0}, ~{1})"]),
        x,
        y,
    )


@rule(1)
def bitwise(d: Draft) -> None:
    x = d.value("int")
    y = _partner(d, x, "int")
    text = d.of(
        [
            "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "torch.gcd({0}, {1})", "{0} << ({1} % 4).abs()",
            "{0} >> ({1} % 4).abs()",
        ]
    )  # fmt: skip
    d.add(text, d.within(x, -100, 100), d.within(y, -100, 100))


@rule(3)
def where(d: Draft) -> None:
    condition = d.value("bool", fresh=0.3)
    a = _partner(d, condition, "any")
    if d.chance(0.4):
        d.add(f"torch.where({{0}}, {{1}}, {d.number(a.dtype)})", condition, a)
    elif d.chance(0.4):
        d.add(f"torch.broadcast_tensors({{0}}, {{1}})[1].masked_fill({{0}}, {d.number(a.dtype)})", condition, a)
    else:
        b = d.like(a, "any", broadcast=True)
        d.add("torch.where({0}, {1}, {2})", condition, a, b)


@rule(4)
def cast(d: Draft) -> None:
    dtype = d.random.choices(list(KINDS["any"]), list(KINDS["any"].values()))[0]
    x = d.value("any")
    if not dtype.is_floating_point and dtype is not torch.bool:
        # What a number outside of the range becomes is undefined in C, and so in torch and in runtimes.
        x = d.within(x, 0 if dtype is torch.uint8 else -100, 100)
    elif dtype is torch.float16:
        x = d.within(x, -6e4, 6e4)
    d.add(
        d.of(
            [
                f"{{0}}.to({dtype})",
                f"{{0}}.type({dtype})",
                f"torch.zeros((), dtype={dtype}).type_as({{0}}.to({dtype})) + {{0}}.to({dtype})",
            ]
        )
        if dtype is not torch.bool
        else "{0}.bool()",
        x,
    )
