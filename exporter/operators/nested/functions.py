"""The rules of jagged nested tensors for the functions of torch that are not computed element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.origin import asks_for_its_caller, refused_here
from onnx_parity.exporter.kinds.nested.jagged import Jagged, from_padded
from onnx_parity.exporter.kinds.nested.nested import RaggedSize, Rule, refused

__all__: list[str] = []

asks_for_its_caller(__file__)

_jagged = Jagged.rule
_Function = Callable[..., Any]
_Axes = int | Sequence[int] | None

# --- parts and padding ------------------------------------------------------------------------------------------------


@_jagged("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded(func: _Function, nt: Jagged, padding: float, output_size: Sequence[Any] | None = None) -> torch.Tensor:
    return nt.padded(padding, nt.usual_size() if output_size is None else output_size[nt._ragged_idx])


@_jagged("unbind", "iter")
def _unbind(func: _Function, nt: Jagged, dim: int = 0) -> Any:
    if dim != 0:
        raise refused("unbind along another axis than the first")
    return iter(nt.rows()) if func.__name__ == "__iter__" else tuple(nt.rows())


@_jagged("numel", "nelement")
def _numel(func: _Function, nt: Jagged) -> Any:
    if nt.lengths() is not None:
        raise refused("numel, between whose rows there are other values")
    return nt.values().numel()


@_jagged("is_contiguous")
def _is_contiguous(func: _Function, nt: Jagged, memory_format: Any = torch.contiguous_format) -> bool:
    return nt.lengths() is None and bool(nt.values().is_contiguous())


@_jagged("contiguous", "clone")
def _contiguous(func: _Function, nt: Jagged, memory_format: Any = None) -> Jagged:
    """Leaves out what is between rows."""
    repacks = memory_format is torch.contiguous_format or func.__name__ == "contiguous"
    if nt.lengths() is None or not repacks:
        return nt.alike(nt.values().clone())
    lengths = nt.lengths_of_rows()
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    longest = nt.longest()
    return from_padded(nt.padded(0, longest), offsets, nt._ragged_idx, {"max": longest})


# --- along axes that are not ragged -----------------------------------------------------------------------------------


@_jagged("transpose", "swapaxes", "swapdims")
def _transpose(func: _Function, nt: Jagged, dim0: int, dim1: int) -> Jagged:
    order = list(range(nt.ndim))
    first, second = dim0 % nt.ndim, dim1 % nt.ndim
    order[first], order[second] = second, first
    return _permute(func, nt, order)


@_jagged("permute")
def _permute(func: _Function, nt: Jagged, *dims: Any) -> Jagged:
    given = dims[0] if len(dims) == 1 else dims
    order = [dim % nt.ndim for dim in given]
    if len(order) != nt.ndim or order[0] != 0:
        raise refused_here("the program moves the axis of the rows of a nested tensor, which has to be the first")
    return nt.alike(nt.values().permute([dim - 1 for dim in order[1:]]), order.index(nt._ragged_idx))


@_jagged("unsqueeze")
def _unsqueeze(func: _Function, nt: Jagged, dim: int) -> Jagged:
    inner = nt.axis(dim, "unsqueeze", among=nt.ndim + 1)
    return nt.alike(nt.values().unsqueeze(inner), nt._ragged_idx + (inner <= nt.inner))


@_jagged("squeeze")
def _squeeze(func: _Function, nt: Jagged, dim: int | None = None) -> Jagged:
    if dim is None:
        raise refused("squeeze without an axis")
    inner = nt.axis(dim, "squeeze")
    values = nt.values().squeeze(inner)
    return nt.alike(values, nt._ragged_idx - (values.ndim < nt.values().ndim and inner < nt.inner))


@_jagged("unflatten")
def _unflatten(func: _Function, nt: Jagged, dim: int, sizes: Sequence[int]) -> Jagged:
    inner = nt.axis(dim, "unflatten")
    return nt.alike(nt.values().unflatten(inner, sizes), nt._ragged_idx + (len(sizes) - 1 if inner < nt.inner else 0))


@_jagged("flatten")
def _flatten(func: _Function, nt: Jagged, start_dim: int = 0, end_dim: int = -1) -> Jagged:
    start, end = nt.axis(start_dim, "flatten"), nt.axis(end_dim, "flatten")
    if start <= nt.inner <= end:
        raise refused("flatten over its ragged axis")
    return nt.alike(nt.values().flatten(start, end), nt._ragged_idx - (end - start if end < nt.inner else 0))


@_jagged("view", "reshape", "_unsafe_view", "expand", "view_as", "reshape_as", "broadcast_to")
def _view(func: _Function, nt: Jagged, *shape: Any) -> Jagged:
    name = func.__name__
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        return nt.pointwise(func, (nt, *shape), {})  # type: ignore[no-any-return]
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if len(shape) == 1 and isinstance(shape[0], Jagged):
        given = shape[0].shape
    ragged, rest = nt._ragged_idx, [*given]
    kept = rest[: ragged + 1]
    if len(rest) <= ragged or kept[ragged] not in (-1, nt.ragged_size) or (ragged > 1 and "view" in name):
        raise refused_here(
            f"the program gives {name} the shape {tuple(rest)} for a nested tensor of the shape {nt.shape}: its first "
            "axes, up to the ragged one, have to stay, and nt.size(1) or -1 stands for the size of the ragged one"
        )
    sizes = [-1 if isinstance(size, RaggedSize) else size for size in rest[1:]]
    if "expand" not in name and "broadcast" not in name:
        sizes[ragged - 1] = nt.values().shape[ragged - 1]
        return nt.alike(nt.values().reshape(sizes))
    return nt.alike(nt.values().expand(sizes))


@_jagged("select")
def _select(func: _Function, nt: Jagged, dim: int, index: int) -> Any:
    if dim % nt.ndim == 0:
        return nt.rows()[index]
    inner = nt.axis(dim, "select")
    return nt.alike(nt.values().select(inner, index), nt._ragged_idx - (inner < nt.inner))


@_jagged("getitem")
def _getitem(func: _Function, nt: Jagged, items: Any) -> Any:
    given = items if isinstance(items, tuple) else (items,)
    if given and type(given[0]) is int:
        row = nt.rows()[given[0]]
        return row[given[1:]] if len(given) > 1 else row
    if any(item is not Ellipsis and type(item) not in (int, slice) for item in given):
        raise refused("an index that is a tensor, a list or None")
    if Ellipsis in given:
        at = given.index(Ellipsis)
        left = nt.ndim - (len(given) - 1)
        given = (*given[:at], *(slice(None),) * left, *given[at + 1 :])
    whole = slice(None)
    if given[0] != whole or (len(given) > nt._ragged_idx and given[nt._ragged_idx] != whole):
        raise refused("an index of the axis of its rows, or of the ragged one")
    dropped = sum(type(item) is int for item in given[1 : nt._ragged_idx])
    return nt.alike(nt.values()[given[1:]], nt._ragged_idx - dropped)


@_jagged("split", "split_with_sizes", "tensor_split")
def _split(func: _Function, nt: Jagged, by: Any, dim: int = 0) -> tuple[Jagged, ...]:
    return tuple(map(nt.alike, func(nt.values(), by, dim=nt.axis(dim, func.__name__))))


@_jagged("chunk")
def _chunk(func: _Function, nt: Jagged, chunks: int, dim: int = 0) -> tuple[Jagged, ...]:
    if dim % nt.ndim != 0:
        return _split(func, nt, chunks, dim)
    if nt._ragged_idx != 1:
        raise refused("chunk along its rows after its ragged axis has moved")
    nt.count()
    parts, start = [], nt._offsets[0].item()
    for lengths in nt._offsets.diff().chunk(chunks):
        offsets = F.pad(lengths.cumsum(0), (1, 0))
        end = start + offsets[-1].item()
        parts.append(Jagged(nt.values()[start:end], offsets))
        start = end
    return tuple(parts)


@_jagged("narrow")
def _narrow(func: _Function, nt: Jagged, dim: int, start: Any, length: Any) -> Jagged:
    return nt.alike(nt.values().narrow(nt.axis(dim, "narrow"), start, length))


@_jagged("cat", "concat", "concatenate", "stack")
def _cat(func: _Function, tensors: Sequence[Any], dim: int = 0) -> Jagged:
    nt = next(each for each in tensors if isinstance(each, Jagged))
    stacks = func.__name__ == "stack"
    inner = nt.axis(dim, func.__name__, among=nt.ndim + 1 if stacks else None)
    values = [nt._beside(each, func.__name__) for each in tensors]
    if any(not isinstance(each, Jagged) for each in tensors):
        raise refused(f"{func.__name__} with dense ones")
    return nt.alike(func(values, dim=inner), nt._ragged_idx + (stacks and inner <= nt.inner))


@_jagged("softmax", "log_softmax", "softmin")
def _softmax(func: _Function, nt: Jagged, dim: int, *_: Any, **options: Any) -> Jagged:
    dtype = options.get("dtype")
    of = getattr(torch, func.__name__, F.softmin)
    if dim % nt.ndim != nt._ragged_idx:
        return nt.alike(of(nt.values(), nt.axis(dim, func.__name__), dtype=dtype))
    if func.__name__ != "softmax" or nt.lengths() is not None:
        raise refused(f"{func.__name__} along its ragged axis")
    batch = nt.padded(-torch.inf, nt._get_max_seqlen())
    return nt.of_batch(of(batch, nt._ragged_idx, dtype=dtype))


@_jagged("layer_norm", "rms_norm")
def _norm(func: _Function, nt: Jagged, normalized_shape: Sequence[Any], *args: Any, **options: Any) -> Jagged:
    if len(normalized_shape) < nt.ndim - nt._ragged_idx:
        return nt.alike(func(nt.values(), normalized_shape, *args, **options))
    if func.__name__ == "layer_norm" and len(normalized_shape) == nt.ndim - 1 > 1 and nt._ragged_idx == 1:
        return _layer_norm_of_rows(nt, *args, **options)
    raise refused(f"{func.__name__} over its ragged axis")


def _layer_norm_of_rows(nt: Jagged, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Jagged:
    """Whole rows, whose number of elements differs. There are no weights, which would differ in size too."""
    if weight is not None or bias is not None or nt.lengths() is not None:
        raise refused("layer_norm over its ragged axis, with weights or with other values between its rows")
    longest = nt.longest()
    batch = nt.padded(0, longest)
    axes = list(range(1, nt.ndim))
    lengths = nt.lengths_of_rows().reshape([-1] + [1] * len(axes))
    place = torch.arange(longest, device=nt.device).reshape([-1] + [1] * (len(axes) - 1))
    count = lengths * math.prod(nt.values().shape[1:])
    mean = batch.sum(axes, keepdim=True) / count
    centred = torch.where(place < lengths, batch - mean, 0)
    variance = centred.square().sum(axes, keepdim=True) / count
    return nt.of_batch(centred / (variance + eps).sqrt())


@_jagged("embedding")
def _embedding(func: _Function, nt: Any, weight: Any, *args: Any, **options: Any) -> Jagged:
    # ATen's own operator has the weights first.
    if isinstance(weight, Jagged):
        return weight.alike(func(nt, weight.values(), *args, **options))
    return nt.alike(func(nt.values(), weight, *args, **options))  # type: ignore[no-any-return]


@_jagged("where")
def _where(func: _Function, *args: Any) -> Any:
    if len(args) == 1:
        raise refused("where with a condition alone")
    nt = next(each for each in args if isinstance(each, Jagged))
    return nt.pointwise(func, args, {})


@_jagged("masked_select")
def _masked_select(func: _Function, nt: Jagged, mask: Any) -> Jagged:
    if nt.ndim > 2 or nt.lengths() is not None:
        raise refused("masked_select where it has more than two axes")
    chosen = nt._beside(mask, "masked_select")
    before = F.pad(chosen.cumsum(0), (1, 0))
    return Jagged(nt.values().masked_select(chosen), before[nt.offsets()], cache=nt._cache)


# --- products ---------------------------------------------------------------------------------------------------------


@_jagged("linear")
def _linear(func: _Function, nt: Any, weight: Any, bias: Any = None) -> Jagged:
    if not isinstance(nt, Jagged) or nt._ragged_idx == nt.ndim - 1:
        raise refused("linear along its ragged axis, or as the weight")
    return nt.alike(F.linear(nt.values(), weight, bias))


@_jagged("rmatmul")
def _reversed_matmul(func: _Function, nt: Jagged, other: Any) -> Any:
    return _matmul(func, other, nt)


@_jagged("matmul", "bmm")
def _matmul(func: _Function, a: Any, b: Any) -> Any:
    if isinstance(a, Jagged) and isinstance(b, Jagged):
        if not a.has_rows_of(b):
            raise refused("matmul with one that was made of other offsets")
        if a._ragged_idx == b._ragged_idx and a._ragged_idx < min(a.ndim, b.ndim) - 2:
            return a.alike(a.values() @ b.values())
        if a.ndim == b.ndim and a._ragged_idx == a.ndim - 1 and b._ragged_idx == b.ndim - 2:
            longest = a.longest()
            return a.padded(0, longest) @ b.padded(0, longest)
    elif isinstance(a, Jagged) and a._ragged_idx < a.ndim - 1 and b.ndim >= 2:
        if b.ndim == 2:
            return a.alike(a.values() @ b)
        if a.ndim == b.ndim:
            return a.of_batch(a.padded(0, a.longest()) @ b)
    elif isinstance(b, Jagged) and not isinstance(a, Jagged) and b._ragged_idx not in (1, b.ndim - 2) and a.ndim >= 2:
        if a.ndim == 2:
            return b.alike(a @ b.values())
        if a.ndim == b.ndim:
            return b.of_batch(a @ b.padded(0, b.longest()))
    shapes = " and ".join(str(tuple(each.shape)) for each in (a, b))
    raise refused_here(
        f"the program multiplies matrices of the shapes {shapes}, which torch does not for nested tensors, or for "
        "which the exporter has no rule: use nt.to_padded_tensor(0.0)"
    )


@_jagged("scaled_dot_product_attention")
def _attention(
    func: _Function, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Jagged:  # fmt: skip
    """The attention of padded queries to those keys that are no padding."""
    if attn_mask is not None or not all(isinstance(each, Jagged) for each in (query, key, value)):
        raise refused("scaled_dot_product_attention with a mask, or with dense tensors")
    if query.ndim > 3 and query._ragged_idx == key._ragged_idx == value._ragged_idx == 1:
        dense = (query.values(), key.values(), value.values())
        made = F.scaled_dot_product_attention(*dense, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        return query.alike(made)  # type: ignore[no-any-return]
    if any(each.ndim != 4 or each._ragged_idx != 2 for each in (query, key, value)) or not key.has_rows_of(value):
        raise refused(
            "scaled_dot_product_attention unless all have the axes of rows, heads, positions and features, in this "
            "order, and keys and values the same offsets"
        )
    length = query.longest()
    of_keys = length if key.has_rows_of(query) else key.longest()
    place = torch.arange(of_keys, device=query.device)
    mask = (place < key.lengths_of_rows().unsqueeze(1)).unflatten(0, (-1, 1, 1))
    if is_causal:
        mask = mask & (place <= torch.arange(length, device=query.device).unsqueeze(1))
    made = F.scaled_dot_product_attention(
        query.padded(0, length), key.padded(0, of_keys), value.padded(0, of_keys), mask, dropout_p, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip
    return query.of_batch(made)  # type: ignore[no-any-return]


# --- reductions -------------------------------------------------------------------------------------------------------


def _reduced(padding: Callable[[torch.dtype], Any], to_usual_size: bool = False) -> Rule:
    """The rule of a reduction, for which padding with this number changes nothing."""

    def rule(func: _Function, nt: Jagged, dim: _Axes = None, keepdim: bool = False, **options: Any) -> Any:
        name = func.__name__
        of = getattr(torch, name)
        axes = None if isinstance(dim, (tuple, list)) and not dim else dim
        if axes is None:
            # These may be without an axis in other overloads only.
            made = of(nt.values(), **options)
            return made.reshape((1,) * nt.ndim) if keepdim else made
        if isinstance(axes, torch.Tensor | Jagged):
            return nt.pointwise({"max": torch.maximum, "min": torch.minimum}[name], (nt, axes), {})
        which = sorted({axis % nt.ndim for axis in ([axes] if isinstance(axes, int) else axes)})
        ragged = nt._ragged_idx
        if ragged not in which:
            inner = [nt.axis(axis, name) for axis in which]
            made = of(nt.values(), inner[0] if isinstance(axes, int) else inner, keepdim=keepdim, **options)
            moved = 0 if keepdim else sum(axis < nt.inner for axis in inner)
            return _each(made, lambda values: nt.alike(values, ragged - moved))
        if nt.lengths() is not None:
            raise refused(f"{name} along its ragged axis, where there are other values between its rows")
        if which[0] == 0:
            inner = [axis - 1 for axis in which if axis]
            made = of(nt.values(), inner, keepdim=keepdim, **options)
            return made.unsqueeze(0) if keepdim else made
        if len(which) > 1:
            raise refused(f"{name} along its ragged axis and others, but not along that of the rows")
        # torch pads to a size that may be greater than each length, which the least and the greatest value show where
        # a row is empty or has infinities alone.
        batch = nt.padded(padding(nt.dtype), nt.usual_size() if to_usual_size else nt.longest())
        return of(batch, ragged if isinstance(axes, int) else [ragged], keepdim=keepdim, **options)

    return rule


def _each(made: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    return type(made)([*map(function, made)]) if isinstance(made, tuple) else function(made)


def _least(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).min if dtype.is_floating_point else _of_ints(dtype)[0]


def _greatest(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).max if dtype.is_floating_point else _of_ints(dtype)[1]


def _of_ints(dtype: torch.dtype) -> tuple[int, int]:
    return (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


_sum = _jagged("sum")(_reduced(lambda dtype: 0))
_jagged("prod")(_reduced(lambda dtype: 1))
_jagged("any")(_reduced(lambda dtype: False))
_jagged("all")(_reduced(lambda dtype: True))
_jagged("max", "amax", "argmax")(_reduced(_least, to_usual_size=True))
_jagged("min", "amin", "argmin")(_reduced(_greatest, to_usual_size=True))
_mean_of_other_axes = _reduced(lambda dtype: 0)


@_jagged("mean")
def _mean(func: _Function, nt: Jagged, dim: _Axes = None, keepdim: bool = False, **options: Any) -> Any:
    along = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if [axis % nt.ndim for axis in along] != [nt._ragged_idx]:
        return _mean_of_other_axes(func, nt, dim, keepdim, **options)
    total = _sum(torch.sum, nt, along, True, **options)
    made = total / nt.lengths_of_rows().reshape([-1] + [1] * (total.ndim - 1))
    return made if keepdim else made.squeeze(nt._ragged_idx)
