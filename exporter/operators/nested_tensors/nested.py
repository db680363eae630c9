"""Making nested tensors, and what they consist of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.jagged import Jagged, from_padded
from onnx_parity.exporter.kinds.nested.nested import Function, Nested, makes_nested, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded_jagged(
    func: Function, nt: Jagged, padding: float, output_size: Sequence[Any] | None = None
) -> torch.Tensor:
    return nt.padded(padding, nt.usual_size() if output_size is None else output_size[nt._ragged_idx])


@Strided.rule("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded_strided(
    func: Function, nt: Strided, padding: float, output_size: Sequence[Any] | None = None
) -> torch.Tensor:
    parts = nt.parts
    if output_size is not None:
        sizes = list(output_size[1:])
    else:
        sizes = [_greatest([part.shape[axis] for part in parts]) for axis in range(parts[0].ndim)]
    # `pad` takes the last axis first.
    return torch.stack(
        [
            F.pad(
                part,
                [amount for axis in reversed(range(part.ndim)) for amount in (0, sizes[axis] - part.shape[axis])],
                value=padding,
            )
            for part in parts
        ]
    )


def _greatest(sizes: Sequence[Any]) -> Any:
    greatest = sizes[0]
    for size in sizes[1:]:
        greatest = torch.sym_max(greatest, size)
    return greatest


@Strided.rule("values")
def _values(func: Function, nt: Strided) -> torch.Tensor:
    return torch.cat([part.reshape(-1) for part in nt.parts])


@Jagged.rule("numel", "nelement")
def _numel_jagged(func: Function, nt: Jagged) -> Any:
    if nt.lengths() is not None:
        raise refused("numel, between whose rows there are other values")
    return nt.values().numel()


@Strided.rule("numel", "nelement")
def _numel_strided(func: Function, nt: Strided) -> Any:
    return sum(part.numel() for part in nt.parts)


@Jagged.rule("is_contiguous")
def _is_contiguous_jagged(func: Function, nt: Jagged, memory_format: Any = torch.contiguous_format) -> bool:
    return nt.lengths() is None and bool(nt.values().is_contiguous())


@Strided.rule("is_contiguous")
def _is_contiguous_strided(func: Function, nt: Strided) -> bool:
    return True


# --- the functions that make them ------------------------------------------------------------------------------------


@makes_nested("nested_tensor_from_jagged")
def nested_tensor_from_jagged(
    values: torch.Tensor,
    offsets: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Jagged:
    if offsets is None:
        if lengths is None:
            raise refused_here("the program calls nested_tensor_from_jagged without offsets and lengths: give one")
        offsets, lengths = F.pad(lengths.cumsum(0), (1, 0)), None
    return Jagged(values, offsets, lengths, ragged=jagged_dim or 1, cache=_known(min_seqlen, max_seqlen))


def _known(least: Any, greatest: Any) -> dict[str, Any]:
    return {name: size for name, size in (("min", least), ("max", greatest)) if size is not None}


@makes_nested("nested_view_from_values_offsets")
def nested_view(
    values: torch.Tensor, offsets: torch.Tensor, ragged_idx: int = 1, min_seqlen: Any = None,
    max_seqlen: Any = None,
) -> Jagged:  # fmt: skip
    return Jagged(values, offsets, ragged=ragged_idx, cache=_known(min_seqlen, max_seqlen))


@makes_nested("nested_view_from_values_offsets_lengths")
def nested_view_with_lengths(
    values: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor | None, ragged_idx: int = 1,
    min_seqlen: Any = None, max_seqlen: Any = None,
) -> Jagged:  # fmt: skip
    return Jagged(values, offsets, lengths, ragged=ragged_idx, cache=_known(min_seqlen, max_seqlen))


@makes_nested("nested_from_padded")
def nested_from_padded(
    padded: torch.Tensor,
    offsets: torch.Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
    sum_S: Any = None,
) -> Jagged:
    return from_padded(padded, offsets, ragged_idx, _known(min_seqlen, max_seqlen), sum_S)


@makes_nested("nested_tensor")
def nested_tensor(
    tensor_list: Sequence[Any], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Nested:  # fmt: skip
    """Of copies of the parts, which are no longer connected to what they were computed from."""
    if requires_grad:
        raise refused_here(
            "the program makes a nested tensor that requires gradients: make it with torch.nested.as_nested_tensor of "
            "tensors that do"
        )
    parts = [torch.as_tensor(each).detach() for each in tensor_list]
    return _of_parts(parts, layout, dtype, device)


@makes_nested("as_nested_tensor")
def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Nested:
    if isinstance(ts, Nested):
        if ts.layout is not (layout or torch.strided):
            raise refused_here("the program converts a nested tensor to another layout, which torch cannot do")
        return ts.to(device=device, dtype=dtype)  # type: ignore[no-any-return]
    if not isinstance(ts, torch.Tensor):
        return _of_parts(list(ts), layout, dtype, device)
    if layout is not torch.jagged:
        return _of_parts(list(ts.unbind()), layout, dtype, device)
    rows, length = ts.shape[:2]
    offsets = torch.arange(0, rows + 1, device=ts.device) * length
    values = ts.flatten(0, 1).to(device=device, dtype=dtype)
    return Jagged(values, offsets, cache={"min": length, "max": length})


def _of_parts(parts: list[Any], layout: Any, dtype: Any, device: Any) -> Nested:
    if not parts or not all(isinstance(part, torch.Tensor) and part.ndim for part in parts):
        raise refused_here(
            "the program makes a nested tensor of an empty list, or of parts that are no tensors or have no axes: "
            "give at least one part, and parts that are tensors with axes"
        )
    parts = [part.to(device=device or part.device, dtype=dtype or part.dtype) for part in parts]
    if layout is not torch.jagged:
        return Strided(parts)
    differing = [axis for axis in range(parts[0].ndim) if len({str(part.shape[axis]) for part in parts}) > 1]
    if len(differing) > 1:
        raise refused_here("the program makes a jagged nested tensor of parts that differ in more than one size")
    axis = differing[0] if differing else 0
    sizes = [part.shape[axis] for part in parts]
    least = greatest = sizes[0]
    for size in sizes[1:]:
        least, greatest = torch.sym_min(least, size), torch.sym_max(greatest, size)
    lengths = torch.stack([torch.scalar_tensor(size, dtype=torch.int64, device=parts[0].device) for size in sizes])
    return Jagged(
        torch.cat(parts, axis),
        F.pad(lengths.cumsum(0), (1, 0)),
        ragged=axis + 1,
        cache={"min": least, "max": greatest},
        sizes=sizes,
    )


@makes_nested("narrow")
def narrow(tensor: torch.Tensor, dim: int, start: Any, length: Any, layout: Any = torch.strided) -> Nested:
    if layout is torch.strided:
        parts = Strided(tensor.unbind())
        return parts.narrow(dim, start, length)  # type: ignore[no-any-return]
    if dim != 1:
        raise refused_here("the program narrows a jagged nested tensor along another axis than 1")
    rows, size = tensor.shape[:2]
    starts, lengths = (_for_each_row(given, rows, tensor.device) for given in (start, length))
    offsets = starts + size * torch.arange(rows, device=tensor.device)
    ends = offsets + lengths
    offsets = torch.cat([offsets, ends[-1:]])
    # torch leaves out what is before the first row and after the last, if all rows are whole apart from that.
    is_whole = (lengths[1:-1] == size).all() & (offsets[1:-2].diff() == size).all() & (offsets[0] + lengths[0] == size)
    first, last = (
        torch.where(is_whole, offsets[0], 0).item(),
        torch.where(is_whole, offsets[-1], rows * size).item(),
    )
    return Jagged(
        tensor.flatten(0, 1)[first:last],
        torch.where(is_whole, offsets - offsets[0], offsets),
        torch.where(is_whole, offsets.diff(), lengths),
        cache={"min": lengths.min().item(), "max": lengths.max().item()},
    )


def _for_each_row(given: Any, rows: Any, device: torch.device) -> torch.Tensor:
    of_rows = given if isinstance(given, torch.Tensor) else torch.scalar_tensor(given, dtype=torch.int64, device=device)
    return of_rows.expand(rows)


@makes_nested("masked_select")
def masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> Jagged:
    lengths = mask.expand(tensor.shape).sum(-1).view(-1)
    return Jagged(tensor.masked_select(mask), F.pad(lengths.cumsum(0), (1, 0)))
