"""Writes in place: to values of the program itself, and through views of them."""

from __future__ import annotations

from onnx_parity.harness.search.draft import Draft, Value
from onnx_parity.harness.search.rules.register import rule


def _written(d: Draft, kind: str = "any") -> Value:
    """A value that can be written to: if there is none, a copy of one."""
    found = [each for each in d.values.values() if d.writable(each)]
    if found and d.chance(0.8):
        return d.random.choice(found)
    return d.add(
        d.of(["{0}.clone()", "torch.zeros_like({0})", "{0}.repeat(*[1] * {0}.ndim)"]),
        d.value(kind, ranks=(1, 3), where=_nonempty),
    )


def _nonempty(value: Value) -> bool:
    return value.tensor.numel() > 0 < value.other.numel()


@rule(3)
def written(d: Draft) -> None:
    x = _written(d)
    number = d.number(x.dtype)
    texts = [
        "{0}.zero_()",
        f"{{0}}.fill_({number})",
        f"{{0}}.masked_fill_({{0}} == {{0}}.max(), {number})",
        "{0}.copy_({0} * 1)",
    ]
    if x.is_float:
        texts += [
            f"{{0}}.mul_({number})", "{0}.clamp_(-2, 2)", "{0}.relu_()", "{0}.tanh_()",
            f"{{0}}.add_({number}, alpha=2)", "torch.sigmoid_({0})", "F.elu_({0})", f"{{0}}[{{0}} < 0] = {number}",
            "{0}.div_(3)", "{0}.neg_()",
        ]  # fmt: skip
    elif str(x.dtype) != "torch.bool":
        texts += [f"{{0}}.add_({number})", "{0}.clamp_(0, 3)", "{0}.bitwise_and_(3)", "{0}.floor_divide_(2)"]
    else:
        texts += ["{0}.logical_not_()", "{0}.logical_and_(~{0})"]
    d.add_all(d.of(texts), x, makes=0)


@rule(4)
def written_in_part(d: Draft) -> None:
    x = _written(d)
    if not x.rank or not _nonempty(x):
        return
    number = d.number(x.dtype)
    texts = [
        f"{{0}}[0] = {number}", f"{{0}}[..., -1] = {number}", f"{{0}}[1:] = {number}", f"{{0}}[::2].fill_({number})",
        "{0}[..., :1] = {0}[..., -1:]", f"{{0}}.select(-1, 0).fill_({number})", f"{{0}}.view_as({{0}})[0] = {number}",
    ]  # fmt: skip
    if str(x.dtype) != "torch.bool":
        texts += [
            f"{{0}}[0] += {number}",
            f"{{0}}[:-1] *= {number}" if not x.is_float else "{0}[:-1] *= 0.5",
            "{0}[..., 0].add_(1)",
            "{0}.transpose(0, -1)[0].add_(1)",
            f"{{0}}.index_fill_(0, torch.tensor([0]), {number})",
        ]
        if x.rank > 1:
            texts += [
                f"torch.diagonal({{0}}, 0, 0, 1).fill_({number})",
                f"{{0}}[:, 0] = {{0}}[:, -1] + {number}",
                "{0}[0] = {0}.sum(0).to({0}.dtype)",
            ]
    d.add_all(d.of(texts), x, makes=0)


@rule(2)
def written_from_another(d: Draft) -> None:
    x = _written(d)
    shape, other = x.shape, x.other.shape

    def fits(value: Value) -> bool:
        return value is not x and value.dtype == x.dtype and (value.shape, value.other.shape) == (shape, other)

    found = [
        each
        for each in d.values.values()
        if fits(each) and each.tensor.untyped_storage().data_ptr() != x.tensor.untyped_storage().data_ptr()
    ]
    if not found:
        return
    texts = ["{0}.copy_({1})", "{0}[...] = {1}"]
    if str(x.dtype) != "torch.bool":
        texts += ["{0}.add_({1})", "{0} -= {1}", "{0}[..., :1] = {1}[..., -1:]"] if x.rank else ["{0}.add_({1})"]
    d.add_all(d.of(texts), x, d.random.choice(found), makes=0)
