"""The results of frequent operators, computed without torch's fake kernels.

With dynamic sizes torch's kernels for these operators take 5 to 30 ms of processor time for each call, because they
decompose into operators that ask many questions about the sizes. With static sizes they import sympy to ask the same
questions, which takes a third of a process's first export. The functions here only take arguments for which no
question is needed: tensors whose sizes are known to fit because they are the same expressions, and which are contiguous
where the layout of the result depends on that. Any other call is left to torch, which asks its questions or refuses it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.pointwise import Metadata, is_contiguous

__all__ = ["Contiguous", "contiguous_results", "lies_as_first"]

#: Describes a fake tensor.
_Describing = Callable[[torch.Tensor], Metadata]


class Contiguous(NamedTuple):
    """A contiguous result, on the device of the first argument."""

    dtype: torch.dtype
    shape: tuple[Size, ...]


class _Operand(NamedTuple):
    """A tensor argument: its sizes, and its metadata, in which a dynamic size is an expression."""

    shape: tuple[Size, ...]
    known: Metadata

    @property
    def dtype(self) -> torch.dtype:
        return self.known.dtype

    @property
    def dims(self) -> tuple[Any, ...]:
        return self.known.shape

    def batch(self) -> _Operand:
        """The axes before the last two, which are a matrix."""
        return _Operand(self.shape[:-2], self.known._replace(shape=self.dims[:-2], strides=self.known.strides[:-2]))


def contiguous_results(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], metadata_of: _Describing
) -> list[Contiguous] | None:
    """The results of an ATen operator; None if torch's kernel has to be called."""
    rule = _RULES.get(name)
    if rule is None or not kwargs.keys() <= _OPTIONS.get(name, frozenset()):
        return None
    operands = [_operand(arg, metadata_of) for arg in args]
    listed = [operand for operand in operands if isinstance(operand, list)]
    tensors = [operand for operand in (*operands, *itertools.chain(*listed)) if isinstance(operand, _Operand)]
    devices = {operand.known.device for operand in tensors}
    if len(devices) != 1 or not isinstance(operands[0], _Operand):
        return None
    of_any_layout = name in _OF_ANY_LAYOUT or kwargs.get("memory_format") is torch.contiguous_format
    is_contiguous_first = name in _OF_TWO and _has_result_layout(*operands)
    if not (of_any_layout or is_contiguous_first or all(is_contiguous(operand.known) for operand in tensors)):
        return None
    return rule(*operands, **kwargs)


def _operand(argument: Any, metadata_of: _Describing) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_operand(each, metadata_of) for each in argument]
    is_tensor = isinstance(argument, torch.Tensor)
    return _Operand(tuple(argument.shape), metadata_of(argument)) if is_tensor else argument


def lies_as_first(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], metadata_of: _Describing) -> bool:
    """Whether the result of an ATen operator has the dtype, shape and strides of its first argument.

    This is only seen where the first argument is contiguous but for two axes, which are transposed in memory.
    """
    if name not in _OF_TWO or kwargs or not all(isinstance(arg, torch.Tensor) for arg in args):
        return False
    first, *others = (_operand(arg, metadata_of) for arg in args)
    known = first.known
    if {0, 1} & {*known.shape} or not _has_result_shape(first, *others) or not _is_ordered(first):
        return False
    if any(other.known.device != known.device for other in others):
        return False
    result = _OF_TWO[name](first, *others)
    pairs = itertools.combinations(range(len(known.shape)), 2)
    return (
        result is not None
        and result[0].dtype == first.dtype
        and any(is_contiguous(_transposed(known, one, other)) for one, other in pairs)
    )


def _transposed(known: Metadata, one: int, other: int) -> Metadata:
    shape, strides = [*known.shape], [*known.strides]
    for each in (shape, strides):
        each[one], each[other] = each[other], each[one]
    return known._replace(shape=tuple(shape), strides=tuple(strides))


def _has_result_layout(first: Any, *others: Any) -> bool:
    """Whether the first of the tensors that are broadcast together is contiguous and has the shape of the result."""
    if not all(isinstance(each, _Operand) for each in (first, *others)):
        return False
    return is_contiguous(first.known) and _is_ordered(first) and _has_result_shape(first, *others)


def _has_result_shape(first: _Operand, *others: _Operand) -> bool:
    pairs = [pair for other in others for pair in zip(reversed(other.dims), reversed(first.dims), strict=False)]
    fits = all(len(other.dims) <= len(first.dims) for other in others)
    return fits and all(size in (1, whole) for size, whole in pairs)


def _is_ordered(first: _Operand) -> bool:
    """Whether the order of a result's axes in memory is that of the first tensor, because its strides all differ."""
    return len({*first.known.strides}) == len(first.dims)


def _broadcast(*tensors: _Operand) -> tuple[Size, ...] | None:
    """The shape that tensors are broadcast to; None if that depends on the values of dynamic sizes."""
    rank = max(len(tensor.shape) for tensor in tensors)
    sizes: list[Size] = []
    for axis in range(-rank, 0):
        present = [(x.dims[axis], x.shape[axis]) for x in tensors if len(x.dims) >= -axis and x.dims[axis] != 1]
        if any(known != present[0][0] for known, _ in present):
            return None
        sizes.append(present[0][1] if present else 1)
    return tuple(sizes)


def _dtype_of(operands: Iterable[_Operand]) -> torch.dtype | None:
    """The dtype of all operands, if it is the same."""
    dtypes = {operand.dtype for operand in operands}
    return dtypes.pop() if len(dtypes) == 1 else None


def _of_all(*operands: _Operand) -> list[Contiguous] | None:
    dtype, shape = _dtype_of(operands), _broadcast(*operands)
    return None if dtype is None or shape is None else [Contiguous(dtype, shape)]


def _of_numbers(*operands: Any) -> list[Contiguous] | None:
    return None if operands[0].dtype is torch.bool else _of_all(*operands)


def _of_bits(*operands: Any) -> list[Contiguous] | None:
    return None if operands[0].dtype.is_floating_point else _of_all(*operands)


def _quotient(*operands: Any) -> list[Contiguous] | None:
    return _of_all(*operands) if operands[0].dtype.is_floating_point else None


def _comparison(*operands: Any) -> list[Contiguous] | None:
    found = _of_all(*operands)
    return found and [found[0]._replace(dtype=torch.bool)]


def _chosen(condition: _Operand, *values: _Operand) -> list[Contiguous] | None:
    dtype, shape = _dtype_of(values), _broadcast(condition, *values)
    return None if dtype is None or shape is None or condition.dtype is not torch.bool else [Contiguous(dtype, shape)]


def _gelu(self: _Operand, approximate: str = "none") -> list[Contiguous] | None:
    return _unchanged(self) if self.dtype.is_floating_point and approximate in ("none", "tanh") else None


def _softmax(self: _Operand, dim: int, dtype: Any = None) -> list[Contiguous] | None:
    # The last argument is a dtype, or whether halves become floats.
    is_plain = not dtype and self.dtype.is_floating_point and -len(self.dims) <= dim < len(self.dims)
    return _unchanged(self) if is_plain else None


def _clone(self: _Operand, memory_format: Any = None) -> list[Contiguous] | None:
    return _unchanged(self) if memory_format in (None, torch.contiguous_format, torch.preserve_format) else None


def _roll(self: _Operand, shifts: Sequence[Size], dims: Sequence[int] = ()) -> list[Contiguous] | None:
    # Without axes, the elements are rolled in the order in which they lie in memory.
    fits = len(shifts) == max(len(dims), 1) and all(-len(self.dims) <= dim < len(self.dims) for dim in dims)
    return _unchanged(self) if fits else None


def _fill(self: _Operand, value: Any) -> list[Contiguous] | None:
    return None if isinstance(value, _Operand) and value.dims else _unchanged(self)


def _unchanged(self: _Operand) -> list[Contiguous]:
    return [Contiguous(self.dtype, self.shape)]


def _matmul(self: _Operand, other: _Operand) -> list[Contiguous] | None:
    # If the left side has fewer axes, torch computes the transposed product, which is not contiguous.
    if len(self.dims) < len(other.dims) or len(other.dims) < 2 or self.dims[-1] != other.dims[-2]:
        return None
    dtype, batch = _dtype_of((self, other)), _broadcast(self.batch(), other.batch())
    return None if dtype is None or batch is None else [Contiguous(dtype, (*batch, self.shape[-2], other.shape[-1]))]


def _linear(self: _Operand, weight: _Operand, bias: _Operand | None = None) -> list[Contiguous] | None:
    others = [weight] if bias is None else [weight, bias]
    fits = len(weight.dims) == 2 and len(self.dims) > 0 and self.dims[-1] == weight.dims[1]
    if not fits or (bias is not None and bias.dims != weight.dims[:1]) or _dtype_of((self, *others)) is None:
        return None
    return [Contiguous(self.dtype, (*self.shape[:-1], weight.shape[0]))]


def _addmm(self: _Operand, first: _Operand, second: _Operand) -> list[Contiguous] | None:
    product = _matmul(first, second) if len(first.dims) == len(second.dims) == 2 else None
    fits = self.dtype == first.dtype and self.dims in ((), second.dims[1:])
    return product if fits else None


def _cumulative(self: _Operand, dim: int, dtype: torch.dtype | None = None) -> list[Contiguous] | None:
    if not -len(self.dims) <= dim < len(self.dims):
        return None
    is_counted = dtype is None and not self.dtype.is_floating_point and not self.dtype.is_complex
    return [Contiguous(torch.int64 if is_counted else dtype or self.dtype, self.shape)]


def _mean(self: _Operand, dims: Sequence[int] | None, keepdim: bool = False) -> list[Contiguous] | None:
    rank = len(self.dims)
    axes = {dim % rank for dim in dims or range(rank) if -rank <= dim < rank}
    if len(axes) != len(dims or range(rank)) or not self.dtype.is_floating_point:
        return None
    kept = [1 if axis in axes else size for axis, size in enumerate(self.shape) if keepdim or axis not in axes]
    return [Contiguous(self.dtype, tuple(kept))]


def _bmm(self: _Operand, other: _Operand) -> list[Contiguous] | None:
    is_batched = len(self.dims) == len(other.dims) == 3 and self.dims[0] == other.dims[0]
    return _matmul(self, other) if is_batched else None


def _layer_norm(
    input: _Operand, sizes: Sequence[Size], weight: _Operand | None, bias: _Operand | None, eps: float
) -> list[Contiguous] | None:
    axes = len(sizes)  # These are static, as they are the shape of weights.
    others = [x for x in (weight, bias) if x is not None]
    fits = all(x.dims == input.dims[-axes:] and x.dtype == input.dtype for x in others)
    is_static = all(isinstance(size, int) for size in sizes)
    if not axes or not fits or not is_static or tuple(sizes) != input.dims[-axes:] or input.dtype is not torch.float32:
        return None
    statistics = Contiguous(input.dtype, (*input.shape[:-axes], *[1] * axes))
    return [Contiguous(input.dtype, input.shape), statistics, statistics]


def _looked_up(weight: _Operand, indices: _Operand, *options: Any) -> list[Contiguous] | None:
    is_table = len(weight.dims) == 2 and indices.dtype in (torch.int32, torch.int64)
    return [Contiguous(weight.dtype, (*indices.shape, weight.shape[1]))] if is_table else None


def _indexed(self: _Operand, indices: Sequence[_Operand | None]) -> list[Contiguous] | None:
    """The result of indices along the first axes, which are broadcast together."""
    given = [index for index in indices if index is not None]
    are_places = all(index.dtype in (torch.int32, torch.int64) for index in given)
    if not given or len(given) < len(indices) or len(indices) > len(self.dims) or not are_places:
        return None
    is_ordered = len(indices) == len(self.dims) or is_contiguous(self.known)
    places = _broadcast(*given) if is_ordered else None
    return None if places is None else [Contiguous(self.dtype, (*places, *self.shape[len(indices) :]))]


def _group_norm(
    input: _Operand, weight: _Operand | None, bias: _Operand | None, n: Size, c: Size, hw: Size, groups: int, eps: float
) -> list[Contiguous] | None:
    others = [x for x in (weight, bias) if x is not None]
    fits = all(x.dims == input.dims[1:2] and x.dtype == input.dtype for x in others)
    if not fits or len(input.dims) < 2 or input.dtype is not torch.float32:
        return None
    statistics = Contiguous(input.dtype, (input.shape[0], groups))
    return [Contiguous(input.dtype, input.shape), statistics, statistics]


def _convolution(
    input: _Operand,
    weight: _Operand,
    bias: _Operand | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int | torch.SymInt,
) -> list[Contiguous] | None:
    rank = len(weight.dims) - 2
    windows = _windows(rank, weight.dims[2:], stride, padding, dilation)
    others = [x for x in (weight, bias) if x is not None]
    floats = input.dtype.is_floating_point and all(x.dtype == input.dtype for x in others)
    if transposed or windows is None or not floats or len(input.dims) != rank + 2:
        return None
    if not isinstance(groups, int) or groups < 1:
        return None
    channels = weight.dims[0]
    divides = groups == 1 or (isinstance(channels, int) and channels % groups == 0)
    fits = divides and input.dims[1] == weight.dims[1] * groups
    if not fits or not channels or (bias is not None and bias.dims != (channels,)):
        return None
    sizes = _slid(input.shape[2:], windows, ceil=False)
    return None if sizes is None else [Contiguous(input.dtype, (input.shape[0], weight.shape[0], *sizes))]


def _avg_pool(
    input: _Operand,
    kernel: Sequence[Any],
    stride: Sequence[Any] = (),
    padding: Sequence[Any] = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> list[Contiguous] | None:
    return _pooled(input, kernel, stride, padding, (1,), ceil) if divisor != 0 else None


def _max_pool(
    input: _Operand,
    kernel: Sequence[Any],
    stride: Sequence[Any] = (),
    padding: Sequence[Any] = (0,),
    dilation: Sequence[Any] = (1,),
    ceil: bool = False,
) -> list[Contiguous] | None:
    found = _pooled(input, kernel, stride, padding, dilation, ceil)
    return found and [found[0], found[0]._replace(dtype=torch.int64)]


def _pooled(
    input: _Operand,
    kernel: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    ceil: bool,
) -> list[Contiguous] | None:
    """The result of a pooling over the last two axes of a batch of images."""
    windows = _windows(2, kernel, stride or kernel, padding, dilation)
    if windows is None or len(input.dims) != 4 or not input.dtype.is_floating_point or input.dims[1] == 0:
        return None
    if any(2 * each.padding > each.size for each in windows):
        return None
    sizes = _slid(input.shape[2:], windows, ceil)
    return None if sizes is None else [Contiguous(input.dtype, (*input.shape[:2], *sizes))]


class _Window(NamedTuple):
    """What slides over an axis."""

    size: int
    stride: int
    padding: int
    dilation: int


def _windows(rank: int, *options: Sequence[Any]) -> list[_Window] | None:
    """The windows over `rank` axes, given their sizes, strides, paddings and dilations; None if these do not fit."""
    full = [tuple(each) * rank if len(each) == 1 else tuple(each) for each in options]
    if rank < 1 or any(len(each) != rank or not all(isinstance(number, int) for number in each) for each in full):
        return None
    windows = [_Window(*each) for each in zip(*full, strict=True)]
    fit = all(min(each.size, each.stride, each.dilation) > 0 and each.padding >= 0 for each in windows)
    return windows if fit else None


def _slid(sizes: Sequence[Size], windows: Sequence[_Window], ceil: bool) -> list[int] | None:
    """How often windows fit on static axes; None if an axis is dynamic or too short."""
    results = []
    for size, (width, stride, padding, dilation) in zip(sizes, windows, strict=True):
        if not isinstance(size, int):
            return None
        left = size + 2 * padding - dilation * (width - 1) - 1
        steps = (left + (stride - 1 if ceil else 0)) // stride
        if ceil and steps * stride >= size + padding:
            steps -= 1  # The last window would only see padding.
        if left < 0 or steps < 0 or not size:
            return None
        results.append(steps + 1)
    return results


#: Operators on two tensors, whose layout is that of the first if it has the shape of the result.
_OF_TWO: dict[str, Callable[..., list[Contiguous] | None]] = {
    "div.Tensor": _quotient,
    **dict.fromkeys(("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum"), _of_numbers),
    **dict.fromkeys(("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"), _of_bits),
    **dict.fromkeys((f"{name}.Tensor" for name in ("eq", "ge", "gt", "le", "lt", "ne")), _comparison),
}
_RULES: dict[str, Callable[..., list[Contiguous] | None]] = {
    "_softmax": _softmax,
    "addmm": _addmm,
    "avg_pool2d": _avg_pool,
    "bmm": _bmm,
    "clone": _clone,
    "convolution": _convolution,
    **dict.fromkeys(("cumprod", "cumsum"), _cumulative),
    "embedding": _looked_up,
    "fill.Scalar": _fill,
    "fill.Tensor": _fill,
    "gelu": _gelu,
    "index.Tensor": _indexed,
    "linear": _linear,
    "matmul": _matmul,
    "max_pool2d_with_indices": _max_pool,
    "mean.dim": _mean,
    "native_group_norm": _group_norm,
    "native_layer_norm": _layer_norm,
    "roll": _roll,
    "softmax.int": _softmax,
    "where.self": _chosen,
    **_OF_TWO,
}
#: Operators whose result is contiguous whatever the layout of their arguments.
_OF_ANY_LAYOUT = {"addmm", "bmm", "embedding", "index.Tensor", "linear", "matmul", "native_layer_norm"}
#: The keyword arguments that a rule takes.
_OPTIONS = {
    "clone": {"memory_format"},
    "cumprod": {"dtype"},
    "cumsum": {"dtype"},
    "gelu": {"approximate"},
}
