"""Fake results of operators for which torch's meta kernels refuse symbolic sizes, or compute them wrongly or slowly.

The result sizes of `cat` are computed here instead of by torch's reference, which saves 0.3 s for DenseNet-121 with
three dynamic axes. Those of slices and views are in view_sizes.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.operators.recorded.upsampling import UPSAMPLING_TO_SIZES
from onnx_parity.exporter.registry.recorded import OfAnyRank, result_with_dynamic_sizes
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.pytree import tree_map_only

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

_aten = torch.ops.aten

_SIZES_OF_THE_EXAMPLE = "torch 2.13's fake kernel takes its sizes from the example"


def _added_to(op: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, **factors: float) -> torch.Tensor:
        if not self.dtype == batch1.dtype == batch2.dtype:
            raise RuntimeError(
                f"{op} takes tensors of one dtype, but got {self.dtype}, {batch1.dtype} and {batch2.dtype}"
            )
        products: torch.Tensor = _aten.bmm.default(batch1, batch2)
        sizes: list[Size] = list(products.shape if op is _aten.baddbmm.default else products.shape[1:])
        aligned = zip(reversed(self.shape), reversed(sizes), strict=False)
        # The comparison of a dynamic size with another records an assumption, which may fix an axis.
        if self.ndim > len(sizes) or not all(same_size(own, 1) or own == size for own, size in aligned):
            raise RuntimeError(f"{op} cannot add {list(self.shape)}: it does not broadcast to {sizes}")
        return torch.empty(sizes, dtype=self.dtype, device=self.device)

    return result


for _op in (_aten.baddbmm.default, _aten.addbmm.default):
    result_with_dynamic_sizes(
        _op, why="torch 2.13's fake kernels expand the added tensor with a kernel that takes only plain sizes"
    )(_added_to(_op))


@result_with_dynamic_sizes("aten::masked_scatter", why="torch's kernel expands the two to plain ints")
def _masked_scattered(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    # An operator of two tensors knows the sizes to which they are broadcast. It is not recorded.
    sizes = (torch.empty_like(self, dtype=torch.bool) | torch.empty_like(mask, dtype=torch.bool)).shape
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes(
    "aten::addcdiv",
    "aten::addcmul",
    "aten::lerp.Scalar",
    "aten::lerp.Tensor",
    why="torch's kernels expand a tensor of static sizes, such as a weight, to plain ints",
)
def _broadcast(first: torch.Tensor, *others: Any, value: Any = 1) -> torch.Tensor:
    # The operator of two tensors has the same sizes, dtype and strides. It is not recorded.
    return functools.reduce(torch.add, (each for each in others if isinstance(each, torch.Tensor)), first)


@result_with_dynamic_sizes(
    *(getattr(_aten, f"special_{name}").default for name in dir(torch.special) if "_polynomial_" in name),
    why="torch's kernels expand the one that has fewer axes to plain ints",
)
def _polynomial(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    # A quotient has the same sizes, and the dtype of floats. It is not recorded.
    return torch.true_divide(x, n)


@result_with_dynamic_sizes("aten::geqrf", why="torch has no fake kernel for it")
def _packed_factors(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    *batch, rows, columns = self.shape
    return torch.empty_like(self), self.new_empty([*batch, torch.sym_min(rows, columns)])


@result_with_dynamic_sizes(
    "aten::scaled_dot_product_attention",
    why="torch's kernels ask whether the number of queries or keys is 1, which is not known if it depends on values; "
    "those for a GPU ask for plain sizes",
)
def _attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **options: Any) -> Any:
    sizes: list[Size] = [size for each in (query, key) for size in each.shape[:-1]]
    are_known = all(isinstance(size, int) or size.node.has_hint() for size in sizes)
    if not are_known and same_shape(query.shape[:-2], value.shape[:-2]):
        return torch.empty((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
    if query.device.type == "cpu":
        return NotImplemented
    here = tree_map_only(torch.Tensor, torch.Tensor.cpu, ((query, key, value, *args), options))
    return _aten.scaled_dot_product_attention.default(*here[0], **here[1]).to(query.device)


_ASKS_WHETHER_EMPTY = "torch asks whether there are no elements, or one, which is not known if it depends on values"


@result_with_dynamic_sizes("aten::logsumexp", why=_ASKS_WHETHER_EMPTY)
def _reduced(self: torch.Tensor, dim: Sequence[int], keepdim: bool = False) -> torch.Tensor:
    # A sum has the same sizes, and the dtype of floats. It is not recorded.
    dtype = self.dtype if self.is_floating_point() or self.is_complex() else torch.get_default_dtype()
    return torch.sum(self, list(dim), keepdim, dtype=dtype)


@result_with_dynamic_sizes("aten::take", why=_ASKS_WHETHER_EMPTY)
def _taken(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.empty(index.shape, dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes("aten::cummax", "aten::cummin", why=_ASKS_WHETHER_EMPTY)
def _running(self: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.int64)


@result_with_dynamic_sizes(
    "aten::constant_pad_nd",
    why="torch 2.13's fake kernel takes its sizes from the example, and fails on negative numbers",
)
def _padded(self: torch.Tensor, pad: Sequence[Size], value: float = 0) -> torch.Tensor:
    sizes: list[Size] = list(self.shape)
    for number, amount in enumerate(pad):
        sizes[-1 - number // 2] += amount
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes(
    "aten::unique_consecutive",
    why=(
        "torch 2.13's fake kernel only accepts a positive axis, and that of torch 2.11 gives indices and counts the "
        "dtype of the values"
    ),
)
def _runs(self: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    axis = None if dim is None else dim % max(self.ndim, 1)
    return _with_places(_aten.unique_consecutive.default)(self, return_inverse, return_counts, axis)


def _with_places(unique: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        values, *others = unique(self, *args, **kwargs)
        return values, *(torch.empty(each.shape, dtype=torch.int64, device=self.device) for each in others)

    return result


for _op in (_aten._unique2.default, _aten.unique_dim.default):
    result_with_dynamic_sizes(_op, why="torch 2.11's fake kernel gives indices and counts the dtype of the values")(
        _with_places(_op)
    )


@result_with_dynamic_sizes(
    "aten::bincount",
    why=(
        "torch 2.11's fake kernel gives sums of weights the dtype of counts; that of no version knows that torch "
        "returns counts for an empty tensor, with weights or without"
    ),
)
def _bins(self: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    counts: torch.Tensor = _aten.bincount.default(self, weights, minlength)
    if weights is None or same_size(self.shape[0], 0):
        dtype = torch.int64
    else:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    return torch.empty(counts.shape, dtype=dtype, device=self.device)


@result_with_dynamic_sizes("aten::im2col", why=_SIZES_OF_THE_EXAMPLE)
def _blocks(
    self: torch.Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> torch.Tensor:
    *batch, channels, height, width = self.shape
    count: Size = 1
    for size, kernel, gap, pad, step in zip((height, width), kernel_size, dilation, padding, stride, strict=True):
        count = count * ((size + 2 * pad - gap * (kernel - 1) - 1) // step + 1)
    sizes = [*batch, channels * kernel_size[0] * kernel_size[1], count]
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


_ASKS_FOR_THE_LAST_WINDOW = "torch drops a last window that starts beyond the input, which its fake kernel decides once"


@result_with_dynamic_sizes("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d", why=_ASKS_FOR_THE_LAST_WINDOW)
def _averaged(
    self: torch.Tensor, kernel_size: list[int], stride: Sequence[int] = (), padding: Sequence[int] | int = 0,
    ceil_mode: bool = False, *options: object,
) -> Any:  # fmt: skip
    sizes = _sizes_of_windows(self, kernel_size, stride, padding, 1, ceil_mode)
    return sizes if sizes is NotImplemented else torch.empty(sizes, dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes("aten::max_pool1d", why=_ASKS_FOR_THE_LAST_WINDOW)
def _maxima(
    self: torch.Tensor, kernel_size: list[int], stride: Sequence[int] = (), padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1, ceil_mode: bool = False,
) -> Any:  # fmt: skip
    sizes = _sizes_of_windows(self, kernel_size, stride, padding, dilation, ceil_mode)
    return sizes if sizes is NotImplemented else torch.empty(sizes, dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes(
    "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices", why=_ASKS_FOR_THE_LAST_WINDOW
)
def _maxima_and_places(self: torch.Tensor, *options: Any) -> Any:
    maxima = _maxima(self, *options)
    return maxima if maxima is NotImplemented else (maxima, torch.empty_like(maxima, dtype=torch.int64))


def _sizes_of_windows(x: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    axes = len(kernel)
    stride, padding, dilation = (_spread(each, axes) for each in (stride or kernel, padding, dilation))
    reach = [gap * (each - 1) + 1 for each, gap in zip(kernel, dilation, strict=True)]
    drops = [step + pad > far for step, pad, far in zip(stride, padding, reach, strict=True)]
    varies = [not isinstance(size, int) for size in x.shape[-axes:]]
    if not ceil_mode or not any(drop and size for drop, size in zip(drops, varies, strict=True)):
        return NotImplemented
    sizes: list[Size] = [*x.shape[:-axes]]
    for size, step, pad, far, drop in zip(x.shape[-axes:], stride, padding, reach, drops, strict=True):
        # If a window may be dropped, the windows are those that begin before the end of the input.
        begins = size + pad if drop else size + 2 * pad - far + step
        sizes.append((begins + step - 1) // step)
    return sizes


def _spread(numbers: Sequence[int] | int, axes: int) -> list[int]:
    each = [numbers] if isinstance(numbers, int) else list(numbers)
    return each * axes if len(each) == 1 else each


@result_with_dynamic_sizes(
    *UPSAMPLING_TO_SIZES, why="torch's fake kernels use indexing, which does not accept symbolic sizes"
)
def _upsampled(self: torch.Tensor, output_size: Sequence[Size], *options: object) -> torch.Tensor:
    return torch.empty([*self.shape[:2], *output_size], dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes(
    "aten::cat",
    why=("torch's fake kernel takes a third of the time to record a DenseNet with dynamic height and width"),
)
def _joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    # torch allows an empty vector beside tensors of any rank.
    whole = [x for x in tensors if x.ndim != 1 or not same_size(x.shape[0], 0)] or tensors[:1]
    along = dim % whole[0].ndim
    sizes = _common_sizes(whole, f"cat along axis {along}", but=along)
    for x in whole[1:]:
        sizes[along] += x.shape[along]
    dtype = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
    return torch.empty(sizes, dtype=dtype, device=whole[0].device)


@result_with_dynamic_sizes(
    "aten::stack",
    why="torch's reference joins the tensors and views them, which fails where the example makes sizes equal",
)
def _stacked(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    sizes = _common_sizes(tensors, "stack")
    sizes.insert(dim % (len(sizes) + 1), len(tensors))
    dtype = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
    return torch.empty(sizes, dtype=dtype, device=tensors[0].device)


def _common_sizes(tensors: Sequence[torch.Tensor], what: str, but: int | None = None) -> list[Size]:
    """The sizes that tensors have in common, and of one axis those of the first tensor."""
    sizes: list[Size] = list(tensors[0].shape)
    for x in tensors[1:]:
        if x.ndim != len(sizes):
            raise RuntimeError(f"{what}: tensors of {len(sizes)} and of {x.ndim} axes")
        for axis, (size, other) in enumerate(zip(sizes, x.shape, strict=True)):
            if axis == but or same_size(size, other):
                continue
            if _in_example(size) and _in_example(other) and size != other:
                raise RuntimeError(f"{what}: axis {axis} is {size} in one tensor and {other} in another")
            # A data-dependent size is assumed to be the other size.
            sizes[axis] = size if isinstance(size, int) else other
    return sizes


def _in_example(size: Size) -> bool:
    return isinstance(size, int) or size.node.shape_env.is_in_example(size)


@result_with_dynamic_sizes(
    "aten::arange", "aten::arange.start", "aten::arange.start_step", why="torch's reference asks which end is larger"
)
def _ranged(*ends: Any, dtype: torch.dtype | None = None, device: Any = None, **options: Any) -> Any:
    start, end, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    if not all(isinstance(each, int | torch.SymInt) for each in (start, end)) or type(step) is not int or step < 1:
        return NotImplemented
    return torch.empty([(end - start + step - 1) // step], dtype=dtype or torch.int64, device=device)


@result_with_dynamic_sizes(
    "aten::squeeze",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
    why=(
        "torch assumes that a dynamic size is not 1. If it is 1 the result has another rank, which stays open; where "
        "an operator needs to know it, the example decides and the assumption is recorded"
    ),
)
def _squeezed(self: torch.Tensor, dim: int | Sequence[int] | None = None) -> torch.Tensor | OfAnyRank:
    dims = (
        range(self.ndim) if dim is None else [d % max(self.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    kept: list[Size] = []
    stays_open = False
    for axis, size in enumerate(self.shape):
        is_one, depends = _is_one(size) if axis in dims else (False, False)
        stays_open |= depends
        if not is_one:
            kept.append(size)
    result = torch.empty(kept, dtype=self.dtype, device=self.device)
    return OfAnyRank(result) if stays_open else result


def _is_one(size: Size) -> tuple[bool, bool]:
    """Whether a size is 1; and whether that is so in the example only, and the number of axes stays open."""
    if isinstance(size, int):
        return size == 1, False
    from onnx_parity.exporter.expressions.conditions import Equal
    from onnx_parity.exporter.expressions.expression import Number

    symbols: Symbols = size.node.shape_env
    question = Equal.of(size.node.expr, Number(1))
    if Decision.RANKS_OF_EXAMPLE not in symbols.decisions and not symbols.is_certain(question):
        return symbols.holds_in_example(question), True
    return symbols.decided(question), False


@result_with_dynamic_sizes(
    "aten::masked_select",
    why="torch's bound of its length is the size of the tensor, of which a larger mask selects elements repeatedly",
)
def _masked_select(self: torch.Tensor, mask: torch.Tensor) -> Any:
    sizes = zip(reversed(mask.shape), reversed(self.shape), strict=False)
    if mask.ndim <= self.ndim and all(same_size(of_mask, 1) or same_size(of_mask, size) for of_mask, size in sizes):
        return NotImplemented
    return torch.empty([_unknown_size(self)], dtype=self.dtype, device=self.device)


@result_with_dynamic_sizes("aten::_pack_padded_sequence", why="torch has no kernel for it that works without values")
def _packed(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The steps of all sequences, and the number of sequences at each step."""
    rows, steps = _unknown_size(input), _unknown_size(input)
    data = torch.empty([rows, *input.shape[2:]], dtype=input.dtype, device=input.device)
    return data, torch.empty([steps], dtype=torch.int64)


@result_with_dynamic_sizes("aten::_pad_packed_sequence", why="torch has no kernel for it that works without values")
def _unpacked(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    steps = batch_sizes.shape[0] if total_length <= 0 else total_length
    batch = _unknown_size(data)
    first: list[Size] = [batch, steps] if batch_first else [steps, batch]
    padded = torch.empty([*first, *data.shape[1:]], dtype=data.dtype, device=data.device)
    return padded, torch.empty([batch], dtype=torch.int64)


@result_with_dynamic_sizes(
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "aten::fake_quantize_per_channel_affine_cachemask",
    why="torch has no fake kernel for it",
)
def _rounded_to_grid(self: torch.Tensor, *options: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)


def _unknown_size(like: torch.Tensor) -> torch.SymInt:
    assert isinstance(like, FakeTensor) and like.fake_mode.shape_env is not None
    return like.fake_mode.shape_env.create_unbacked_symint()


@result_with_dynamic_sizes(
    "aten::lstm.data",
    "aten::gru.data",
    "aten::rnn_tanh.data",
    "aten::rnn_relu.data",
    why="torch reads the number of sequences at each step as plain ints",
)
def _recurrent_over_packed(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: Any, params: list[torch.Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    states = hx if isinstance(hx, (list, tuple)) else [hx]
    # The output has the size of the state, also in an LSTM with projections.
    features = states[0].shape[-1] * (2 if bidirectional else 1)
    output = torch.empty([data.shape[0], features], dtype=data.dtype, device=data.device)
    return output, *(torch.empty_like(state) for state in states)


@result_with_dynamic_sizes(
    "aten::index.Tensor",
    why=("torch's fake kernel computes strides with guards, which takes ten milliseconds for the count of a mask"),
)
def _picked(x: torch.Tensor, indices: list[torch.Tensor | None]) -> Any:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        return NotImplemented
    axis, index = given[0]
    taken: list[Size] = list(index.shape)
    covered = 1
    if index.dtype is torch.bool:
        covered = index.ndim
        if not same_shape(index.shape, x.shape[axis : axis + covered]):
            return NotImplemented
        taken = [_aten.nonzero.default(index).shape[0]]
    return torch.empty([*x.shape[:axis], *taken, *x.shape[axis + covered :]], dtype=x.dtype, device=x.device)
