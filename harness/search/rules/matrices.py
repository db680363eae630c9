"""Products of matrices, layers, convolutions and pooling: operands are made to fit each other."""

from __future__ import annotations

import torch

from onnx_parity.harness.search.draft import Draft, Value
from onnx_parity.harness.search.rules.register import rule

_NARROW = (torch.float16, torch.bfloat16)


def _features(d: Draft, ranks: tuple[int, int], where: str = "last") -> Value:
    """Floats whose last axis is fixed and has elements."""

    def fits(value: Value) -> bool:
        return not value.varies(-1) and value.shape[-1] > 0 and value.tensor.numel() <= 600

    return d.within(d.value("float", ranks=ranks, where=fits), -30, 30)


def _channels(value: Value) -> bool:
    """Whether it is a batch of images, signals or volumes with channels, none of them empty."""
    return not value.varies(1) and min(*value.shape[1:], *value.other.shape[1:]) > 0 and value.tensor.numel() <= 1000


@rule(4)
def product(d: Draft) -> None:
    x = _features(d, (1, 4))
    inner, columns = x.shape[-1], d.random.randint(1, 4)
    text = d.of(["{0} @ {1}", "torch.matmul({0}, {1})", "F.linear({0}, {1})", "vector", "einsum", "self"])
    if text == "vector":
        d.add("{0} @ {1}", x, d.fresh("float", [inner], dtype=x.dtype))
    elif text == "einsum":
        d.add("torch.einsum('...i,ij->...j', {0}, {1})", x, d.fresh("float", [inner, columns], dtype=x.dtype))
    elif text == "self":
        if x.rank > 1:
            d.add("{0} @ {0}.mT", x)
    else:
        shape = [columns, inner] if "linear" in text else [inner, columns]
        d.add(text, x, d.fresh("float", shape, dtype=x.dtype))


@rule(1.5)
def linear_with_bias(d: Draft) -> None:
    x = _features(d, (1, 3))
    columns = d.random.randint(1, 4)
    weight = d.fresh("float", [columns, x.shape[-1]], dtype=x.dtype)
    bias = d.fresh("float", [columns], dtype=x.dtype)
    texts = ["F.linear({0}, {1}, {2})"]
    if x.rank == 2:
        texts += ["torch.addmm({2}, {0}, {1}.t(), beta=0.5, alpha=2.0)", "torch.addmm({2}, {0}, {1}.t())"]
    d.add(d.of(texts), x, weight, bias)


@rule(1.5)
def batched_product(d: Draft) -> None:
    x = _features(d, (3, 3))
    if not x.varies(0):
        y = d.fresh("float", [x.shape[0], x.shape[2], d.random.randint(1, 3)], dtype=x.dtype)
        d.add(d.of(["torch.bmm({0}, {1})", "{0} @ {1}", "torch.einsum('bij,bjk->bki', {0}, {1})"]), x, y)


@rule(1.5)
def product_of_ints(d: Draft) -> None:
    x = d.value("int", ranks=(1, 3), where=lambda value: not value.varies(-1) and value.shape[-1] > 0)
    d.add("{0} @ {1}", d.within(x, -5, 5), d.fresh("int", [x.shape[-1], 2], low=-3, high=4, dtype=x.dtype))


@rule(3)
def convolution(d: Draft) -> None:
    dims = d.random.choice([1, 2, 2, 3])
    x = d.within(d.value("float", ranks=(dims + 2, dims + 2), where=_channels), -30, 30)
    channels = x.shape[1]
    groups = channels if d.chance(0.25) else 1
    outputs = groups * d.random.randint(1, 2)
    padding = d.random.randint(0, 2)
    stride = d.random.choice([1, 1, 2])
    # Where both are 2, oneDNN's convolution of halves for processors with AVX512-FP16 crashes, as the one of
    # https://github.com/pytorch/pytorch/issues/195394 does.
    dilation = 1 if x.dtype is torch.float16 and stride == 2 else d.random.choice([1, 1, 2])
    # The kernel is no larger than the padded image, with its dilation.
    spatial = [min(x.shape[axis], x.other.shape[axis]) for axis in range(2, x.rank)]
    sizes = [d.random.randint(1, max(1, min(3, (size + 2 * padding - 1) // dilation + 1))) for size in spatial]
    weight = d.fresh("float", [outputs, channels // groups, *sizes], low=-1, high=1, dtype=x.dtype)
    options = f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}"
    if d.chance(0.5):
        d.add(f"F.conv{dims}d({{0}}, {{1}}, {{2}}, {options})", x, weight, d.fresh("float", [outputs], dtype=x.dtype))
    else:
        d.add(f"F.conv{dims}d({{0}}, {{1}}, {options})", x, weight)


@rule(1.5)
def transposed_convolution(d: Draft) -> None:
    dims = d.random.choice([1, 2])
    x = d.within(d.value("float", ranks=(dims + 2, dims + 2), where=_channels), -30, 30)
    stride = d.random.choice([1, 2, 3])
    sizes = [d.random.randint(1, 3) for _ in range(dims)]
    padding = d.random.randint(0, (min(sizes) - 1) // 2)
    extra = d.random.randint(0, stride - 1)
    weight = d.fresh("float", [x.shape[1], d.random.randint(1, 2), *sizes], low=-1, high=1, dtype=x.dtype)
    d.add(
        f"F.conv_transpose{dims}d({{0}}, {{1}}, stride={stride}, padding={padding}, output_padding={extra})", x, weight
    )


@rule(3)
def pooled(d: Draft) -> None:
    dims = d.random.choice([1, 2, 2, 3])
    x = d.within(d.value("float", ranks=(dims + 2, dims + 2), where=_channels), -100, 100)
    if dims == 3 and x.dtype in _NARROW:
        return
    smallest = min(*x.shape[2:], *x.other.shape[2:])
    size = d.random.randint(1, min(smallest, 3))
    padding, stride = d.random.randint(0, size // 2), d.random.randint(1, 3)
    ceil = d.chance(0.4)
    text = f"{size}, {stride}, {padding}"
    choices = [
        f"F.avg_pool{dims}d({{0}}, {text}, ceil_mode={ceil}, count_include_pad={d.chance(0.5)})",
        f"F.adaptive_avg_pool{dims}d({{0}}, {d.random.randint(1, 3)})",
        f"F.lp_pool{dims}d({{0}}.abs() + 0.1, 2, {size}, {stride})",
    ]
    choices += [f"F.max_pool{dims}d({{0}}, {text}, ceil_mode={ceil})"] * 2
    if not any(x.varies(axis) for axis in range(2, x.rank)):
        choices.append(f"F.adaptive_max_pool{dims}d({{0}}, {d.random.randint(1, 3)})")
    d.add(d.of(choices), x)


@rule(2)
def normalized(d: Draft) -> None:
    x = d.within(d.value("float", ranks=(2, 4), where=lambda v: _channels(v) and v.tensor.numel() > 0), -50, 50)
    channels = x.shape[1]
    weight, bias = (d.fresh("float", [channels], dtype=x.dtype) for _ in range(2))
    kind = d.of(["layer", "batch", "group", "instance", "rms"])
    if kind == "layer" and not x.varies(-1):
        weight = d.fresh("float", [x.shape[-1]], dtype=x.dtype)
        d.add(f"F.layer_norm({{0}}, ({x.shape[-1]},), {{1}}, eps=0.01)", x, weight)
    elif kind == "rms" and not x.varies(-1):
        d.add(f"F.rms_norm({{0}}, ({x.shape[-1]},), eps=0.01)", x)
    elif kind == "batch":
        mean, variance = (
            d.fresh("float", [channels], dtype=x.dtype),
            d.fresh("float", [channels], low=0.5, high=2, dtype=x.dtype),
        )
        d.add("F.batch_norm({0}, {1}, {2}, {3}, {4}, eps=0.01)", x, mean, variance, weight, bias)
    elif kind == "instance" and x.rank > 2 and min(x.tensor[0, 0].numel(), x.other[0, 0].numel()) > 1:
        d.add("F.instance_norm({0}, weight={1}, bias={2}, eps=0.01)", x, weight, bias)
    elif kind == "group" and x.rank > 2 and x.tensor[0].numel() > channels:
        d.add(f"F.group_norm({{0}}, {d.random.choice([1, channels])}, {{1}}, {{2}}, eps=0.01)", x, weight, bias)


@rule(1.5)
def resized(d: Draft) -> None:
    dims = d.random.choice([1, 2])
    x = d.within(d.value("float", ranks=(dims + 2, dims + 2), where=_channels), -50, 50)
    mode = d.of(["nearest", "linear" if dims == 1 else "bilinear", "nearest-exact"] + ["bicubic"] * (dims - 1))
    corners = f", align_corners={d.chance(0.5)}" if "linear" in mode or mode == "bicubic" else ""
    size = f"size={d.random.randint(1, 6)}" if d.chance(0.5) else f"scale_factor={d.random.choice([0.5, 1.5, 2.0, 2])}"
    if "scale" in size and min(*x.shape[2:], *x.other.shape[2:]) < 2:
        size = "scale_factor=2"
    d.add(f"F.interpolate({{0}}, {size}, mode={mode!r}{corners})", x)


@rule(1)
def attention(d: Draft) -> None:
    x = _features(d, (3, 4))
    if min(*x.shape, *x.other.shape) > 0:
        d.add(f"F.scaled_dot_product_attention({{0}}, {{0}}, {{0}}, is_causal={d.chance(0.5)})", x)


@rule(1)
def shuffled(d: Draft) -> None:
    x = d.value("float", ranks=(4, 4), where=_channels)
    if x.shape[1] % 4 == 0:
        d.add("F.pixel_shuffle({0}, 2)", x)
    elif x.shape[2] % 2 == 0 == x.shape[3] % 2 and not (x.varies(2) or x.varies(3)):
        if min(*x.shape, *x.other.shape) > 0:  # Of an empty tensor torch leaves the axes as they are.
            d.add("F.pixel_unshuffle({0}, 2)", x)
    elif x.shape[1] % 2 == 0:
        d.add("F.channel_shuffle({0}, 2)", x)
