"""Python's arithmetic with sizes that vary, and branches on them.

A branch whose other side is another result is refused, because programs are recorded with `strict`.
"""

from __future__ import annotations

from onnx_parity.harness.search.draft import Draft, NoOperandError, Value
from onnx_parity.harness.search.rules.register import rule

#: Integers of a size.
_INTEGERS = [
    "int({n} * 1.5)", "int({n} / 2)", "max({n} - 2, 1)", "min({n}, 4)", "len({0}) + {n}", "divmod({n}, 3)[0]",
    "-{n} % 4", "round({n} * 0.4)", "math.ceil({n} / 3)", "int(math.sqrt({n}))",
    "2 ** math.ceil(math.log2({n} + 1))", "{n} // 2 + 1",
    "max({0}.shape)", "min({0}.shape)", "int(float({n}) ** 0.5)", "{0}.numel() % 5", "abs({n} - 4)",
]  # fmt: skip
_QUESTIONS = [
    "{n} % 2 == 0", "{n} % 3", "{n} > 5", "{n} == 3", "{n} != {m}", "{n} > {m}", "{0}.numel()", "{n} // 4 == 1",
    "{n} > 2 and {m} > 8", "{n} == 6 or {m} > 100", "isinstance({n}, int)", "type({n}) is int", "len({0}) > 20",
    "{n} in (3, 9)", "not {n}", "{0}.shape[-1] == {0}.shape[0]", "max({n}, {m}) == {n}", "0 < {n} < 100",
    "({n} > 5) + ({m} > 8) == 2", "any(size % 2 for size in {0}.shape)", "{n} * {m} > 30", "{0}[5:].numel() > 0",
]  # fmt: skip


def _sized(d: Draft, most: int = 100) -> tuple[Value, str, str]:
    """A value with an axis of a size that varies, and two sizes of it."""
    x = d.value(
        "float",
        ranks=(1, 3),
        where=lambda value: (
            any(value.varies(axis) for axis in range(value.rank))
            and max(value.tensor.numel(), value.other.numel()) <= most
        ),
        fresh=0.5,
    )
    varying = [axis for axis in range(x.rank) if x.varies(axis)]
    if not varying:
        raise NoOperandError("no axis varies")
    sizes = [f"{{0}}.shape[{d.random.choice(varying)}]" for _ in range(2)]
    return x, sizes[0], sizes[1]


@rule(2)
def size(d: Draft) -> None:
    """A number that is computed from sizes scales a value, or is itself a size."""
    x, n, m = _sized(d)
    number = d.of(_INTEGERS).replace("{n}", n).replace("{m}", m)
    text = d.of(["{0} * (N)", "{0} / float((N) + 1)", "{0}[..., : (N) + 1]", "{0}.sum() * torch.ones((N) + 1)"])
    d.add(text.replace("N", number), x)


@rule(1.5)
def branch_on_a_size(d: Draft) -> None:
    x, n, m = _sized(d, 1000)
    question = d.of(_QUESTIONS).replace("{n}", n).replace("{m}", m)
    other = d.of(["{0} * 2", "{0}", "{0} + 1 * 0", "{0} - {0}.mean()", "{0}.clone()"])
    d.add(f"({{0}} if {question} else {other})", x)
