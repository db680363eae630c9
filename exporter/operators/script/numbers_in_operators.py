"""Operators with parameters that are Python numbers, computed with tensors if such a number depends on values.

Only operators without an overload that takes a tensor in place of the number are here, and `quantile`, whose tensor has
to lie where the numbers do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.operators.pooled_axes import pooled_over_axes
from onnx_parity.exporter.operators.recorded.dynamic_sizes import (
    arange,
    diagonal,
    indices_of_triangle,
    narrow,
    unpacked,
    window,
)
from onnx_parity.exporter.operators.recorded.fourier_transforms import istft
from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf
from onnx_parity.exporter.script.operator_arguments import DTYPE_OF_NUMBER, beside, depends_on_values
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of, with_numbers_as_tensors
from onnx_parity.exporter.script.values import ScriptList, stacked

__all__: list[str] = []

#: Takes the arguments by name, None if omitted. Returns `NotImplemented` if the operator itself can be called.
_Write = Callable[[Blocks, Mapping[str, Any]], Any]


def _tensor(blocks: Blocks, number: Leaf) -> torch.Tensor:
    tensor: torch.Tensor = number if isinstance(number, torch.Tensor) else blocks.give(blocks.tensor(number))
    return tensor


def _number(blocks: Blocks, number: Leaf) -> Any:
    return blocks.number(number) if isinstance(number, torch.Tensor) else number


def _dtype(given: Mapping[str, Any], number: torch.Tensor | None = None) -> torch.dtype:
    """The requested dtype, or the default dtype for a number."""
    if given.get("out") is not None:
        return given["out"].dtype  # type: ignore[no-any-return]
    if given.get("dtype") is not None:
        return DTYPE_OF_NUMBER[given["dtype"]]
    if number is None or number.is_floating_point():
        return torch.get_default_dtype()
    return number.dtype


# --- tensors created from numbers -------------------------------------------------------------------------------------


@with_numbers_as_tensors("arange")
def _arange(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """start + step i, for i from 0 to ceil((end - start) / step) - 1"""
    numbers = [given.get("start"), given["end"], given.get("step")]
    defaults = (0, None, 1)
    ends = [_tensor(blocks, default if each is None else each) for each, default in zip(numbers, defaults, strict=True)]
    if not any(each.is_floating_point() for each in ends):
        return NotImplemented
    start, end, step = ends
    return arange(start, end, step, _dtype(given))


@with_numbers_as_tensors("diagonal", "diag")
def _diagonal(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x, offset = given["self"], given.get("offset", given.get("diagonal"))
    if x.ndim == 1 or not depends_on_values(offset):
        return NotImplemented
    return diagonal(
        x, _number(blocks, offset), given.get("dim1") or 0, 1 if given.get("dim2") is None else given["dim2"]
    )


@with_numbers_as_tensors("linspace", "logspace")
def _linspace(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    steps = _number(blocks, given["steps"])
    start, end = (_tensor(blocks, given[name]).to(torch.float64) for name in ("start", "end"))
    places = torch.arange(steps, dtype=torch.float64)
    last = torch.sym_max(steps - 1, 1)
    spaced = start * ((last - places) / last) + end * (places / last)
    if "base" in given:
        spaced = torch.pow(_tensor(blocks, given["base"]).to(torch.float64), spaced)
    return spaced.to(_dtype(given))


@with_numbers_as_tensors("tril_indices", "triu_indices")
def _indices_of_triangle(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    rows, columns, offset = (_number(blocks, given[name] or 0) for name in ("row", "col", "offset"))
    part = torch.tril if given["name"] == "tril_indices" else torch.triu
    dtype = torch.int64 if given.get("dtype") is None else DTYPE_OF_NUMBER[given["dtype"]]
    return indices_of_triangle(part, rows, columns, offset, dtype=dtype)


@with_numbers_as_tensors("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")
def _window(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    count = _number(blocks, given["window_length"])
    factors = [given[name] for name in ("alpha", "beta") if given.get(name) is not None]
    return window(given["name"], count, given.get("periodic") is not False, factors, _dtype(given))


@with_numbers_as_tensors("full")
def _full(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given["fill_value"]):
        return NotImplemented
    value = _tensor(blocks, given["fill_value"])
    return value.to(_dtype(given, value)).expand(given["size"]).clone()


@with_numbers_as_tensors("new_full", "full_like")
def _full_like(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    like = given["self"]
    if not depends_on_values(given["fill_value"]):
        return NotImplemented
    dtype = like.dtype if given.get("dtype") is None else DTYPE_OF_NUMBER[given["dtype"]]
    return _tensor(blocks, given["fill_value"]).to(like.device, dtype).expand(given.get("size", like.shape)).clone()


@with_numbers_as_tensors("where")
def _where(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """The result for two numbers has the default dtype for these numbers."""
    if any(isinstance(given[name], torch.Tensor) and given[name].ndim for name in ("self", "other")):
        return NotImplemented
    one, other = (_tensor(blocks, given[name]) for name in ("self", "other"))
    one, other = one.to(_dtype({}, one)), other.to(_dtype({}, other))
    return torch.where(given["condition"], one, other)


@step_of("aten::zeros", "aten::ones", "aten::full", "aten::new_zeros", "aten::new_ones", "aten::new_full")
def _of_sizes_in_list(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """A tensor of one number, of sizes in a list whose length depends on values."""
    assert step.operator is not None
    given = dict(zip((parameter.name for parameter in step.operator.parameters), arguments, strict=False))
    sizes = given["size"]
    if not isinstance(sizes, ScriptList) or sizes.is_known:
        return NotImplemented
    number = _tensor(blocks, given.get("fill_value", 1 if step.kind.endswith("ones") else 0))
    like = given.get("self")
    dtype = like.dtype if like is not None and given.get("dtype") is None else None
    of_number = number if "fill_value" in given else None
    device = given.get("device") or (number if like is None else like).device
    number = number.to(device, dtype or _dtype(given, of_number))
    return recorded_lists.expanded(blocks, number, stacked(sizes, blocks))


# --- sequences ------------------------------------------------------------------------------------------------------


@with_numbers_as_tensors("_pad_packed_sequence")
def _unpack(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given["total_length"]) or depends_on_values(given["padding_value"]):
        return NotImplemented
    settings = given["batch_first"], given["padding_value"], _number(blocks, given["total_length"])
    return unpacked(given["data"], given["batch_sizes"], *settings)


@with_numbers_as_tensors("istft")
def _istft(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    settings = {name: given[name] for name in ("n_fft", "hop_length", "win_length", "center", "normalized", "onesided")}
    if not depends_on_values(given["length"]) or any(map(depends_on_values, settings.values())):
        return NotImplemented
    settings |= {"length": _number(blocks, given["length"]), "return_complex": bool(given["return_complex"])}
    return istft(given["self"], window=given["window"], **settings)


# --- poolings ---------------------------------------------------------------------------------------------------------


@with_numbers_as_tensors(*(f"{kind}_pool{axes}d" for kind in ("avg", "max") for axes in (1, 2, 3)))
def _pooled(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in given.items() if name not in ("self", "name") and value is not None}
    made = pooled_over_axes(getattr(F, given["name"]), (given["self"],), options)
    return NotImplemented if made is None else made


# --- scaling factors --------------------------------------------------------------------------------------------------


def _scaled(blocks: Blocks, x: torch.Tensor, factor: Leaf) -> torch.Tensor:
    return x if factor is None else x * beside(blocks, x, factor)


@with_numbers_as_tensors("add", "add_", "sub", "sub_", "rsub")
def _add(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given.get("alpha")):
        return NotImplemented
    x, other = given["self"], given["other"]
    other = other if isinstance(other, torch.Tensor) else beside(blocks, x, other)
    return getattr(torch.ops.aten, given["name"])(x, _scaled(blocks, other, given["alpha"]))


_PRODUCTS: dict[str, Callable[..., torch.Tensor]] = {
    "baddbmm": torch.bmm,
    "addmm": torch.mm,
    "addbmm": lambda one, other: torch.bmm(one, other).sum(0),
    "addmv": torch.mv,
    "addr": torch.outer,
    "addcmul": torch.mul,
    "addcdiv": torch.div,
}


def _product(name: str, multiply: Callable[..., torch.Tensor]) -> _Write:
    def write(blocks: Blocks, given: Mapping[str, Any]) -> Any:
        """beta self + alpha (one other); in addcmul and addcdiv alpha is called `value`, and there is no beta"""
        own = [each for key, each in given.items() if key not in _OPTIONS]
        x, one, other = own
        factor = given.get("value") if "value" in given else given.get("alpha")
        total = _scaled(blocks, x, given.get("beta")) + _scaled(blocks, multiply(one, other), factor)
        return x.copy_(total) if name.endswith("_") else total

    return write


_OPTIONS = frozenset({"alpha", "beta", "value", "out", "name"})
for _name, _multiply in _PRODUCTS.items():
    for _written in (_name, f"{_name}_"):
        with_numbers_as_tensors(_written)(_product(_written, _multiply))


# --- values that are inserted -----------------------------------------------------------------------------------------


@with_numbers_as_tensors("constant_pad_nd", "pad")
def _pad(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x, pad = given["self"], given["pad"]
    if given.get("mode") not in (None, "constant") or not depends_on_values(given.get("value")):
        return NotImplemented
    outside = torch.constant_pad_nd(torch.zeros_like(x, dtype=torch.int32), pad, 1) > 0
    return torch.where(outside, beside(blocks, x, given["value"]).to(x.dtype), torch.constant_pad_nd(x, pad))


@with_numbers_as_tensors("scatter", "scatter_")
def _scatter(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given.get("value")) or given.get("reduce") is not None:
        return NotImplemented
    x, index = given["self"], given["index"]
    source = beside(blocks, x, given["value"]).to(x.device, x.dtype).expand(index.shape)
    return getattr(torch.ops.aten, given["name"])(x, given["dim"], index, source)


@with_numbers_as_tensors("leaky_relu", "leaky_relu_")
def _leaky_relu(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    y = torch.where(x > 0, x, _scaled(blocks, x, given["negative_slope"]))
    return x.copy_(y) if given["name"].endswith("_") else y


@with_numbers_as_tensors("threshold", "threshold_")
def _threshold(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    y = torch.where(x <= beside(blocks, x, given["threshold"]), beside(blocks, x, given["value"]).to(x.dtype), x)
    return x.copy_(y) if given["name"].endswith("_") else y


@with_numbers_as_tensors("hardtanh", "hardtanh_")
def _hardtanh(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    low, high = (-1.0 if given["min_val"] is None else given["min_val"]), given["max_val"]
    y = torch.clamp(x, beside(blocks, x, low), beside(blocks, x, 1.0 if high is None else high))
    return x.copy_(y) if given["name"].endswith("_") else y


@with_numbers_as_tensors("masked_fill_")
def _masked_fill(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """The operator in place can only be functionalized with static sizes."""
    x = given["self"]
    return x.copy_(torch.where(given["mask"], beside(blocks, x, given["value"]).to(x.dtype), x))


@with_numbers_as_tensors("quantile", "nanquantile")
def _quantile(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """torch takes a quantile that is a tensor only from the memory in which the numbers of `x` lie."""
    x, q = given["self"], given["q"]
    if not depends_on_values(q):
        return NotImplemented
    options = {"interpolation": given.get("interpolation") or "linear", "keepdim": bool(given.get("keepdim"))}
    return getattr(torch, given["name"])(x, beside(blocks, x, q).to(x.device), given.get("dim"), **options)


@with_numbers_as_tensors("one_hot")
def _one_hot(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    count = _number(blocks, given["num_classes"])
    classes = torch.arange(count, device=given["self"].device)
    return (given["self"].unsqueeze(-1) == classes).to(torch.int64)


@with_numbers_as_tensors("narrow")
def _narrow(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x, dim, start, length = (given[name] for name in ("self", "dim", "start", "length"))
    if not isinstance(start, torch.Tensor):
        return NotImplemented
    length = _number(blocks, length)
    place = blocks.number(start)
    return narrow(x, dim, place, length) if isinstance(place, torch.SymInt) else torch.narrow(x, dim, place, length)
