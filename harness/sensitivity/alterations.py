"""What may be done wrong in one operator: which alterations a call can have, and what the altered call returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from onnx_parity.harness.sensitivity.calls import Call, Parameter

__all__ = [
    "CASTS", "DYNAMIC", "NEGATIVE", "Alteration", "Kind", "NotAlterableError", "alterations_of", "altered", "axis_size",
    "parameters_of", "result_of_empty",
]  # fmt: skip


class NotAlterableError(Exception):
    """torch does not take the inputs of a call in fewer bits, so that no one does it so by mistake."""


class Kind(StrEnum):
    """What is altered."""

    DEFAULT = "has its default"
    ZERO = "is 0"
    NARROWER = "is computed in fewer bits"
    SWAPPED = "has its first two inputs swapped"
    TIES = "has its ties turned"
    OTHER_END = "is counted from the other end"
    EMPTY = "is another value where the axis is empty"
    UNROUNDED = "does not round"
    CONVERTED = "converts the values and not the bits"


class Alteration(NamedTuple):
    """An alteration of all calls of an operator in a program."""

    operator: str
    kind: Kind
    #: The parameter that it concerns; empty if none.
    parameter: str = ""
    #: Under which condition only: `a negative axis`.
    where: str = ""

    def __str__(self) -> str:
        of = f"{self.operator}({self.parameter})" if self.parameter else self.operator
        return f"{of} {self.kind}{f', {self.where}' if self.where else ''}"


NEGATIVE = "a negative axis"
DYNAMIC = "a dynamic axis"

_NARROWER = {torch.float64: torch.float32, torch.int64: torch.int32}
_AXES = {
    "dim", "dims", "dim0", "dim1", "axis", "axis0", "axis1", "start_dim", "end_dim", "source", "destination",
}  # fmt: skip
_EPSILONS = {"eps", "epsilon"}
#: The beginnings of the names of parameters that are indices, which torch takes in one dtype of integers only.
_INDICES = ("index", "indices", "offsets")
#: Functions whose result has one more axis than their input: their axes are counted in the result.
_ADDING = {"stack", "unsqueeze"}
#: Functions whose result says which of several equal elements was taken.
_RANKING = {"argmax", "argmin", "max", "min", "sort", "argsort"}
#: Functions and methods that cast.
CASTS = {
    "to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool",
}  # fmt: skip
#: Parameters that do not change the values of a result, but how they are computed, where they are kept, or warnings.
_OF_NO_VALUE = {
    "allow_tf32", "allow_unused", "assume_unique", "check_errors", "check_pinning", "check_stride", "compute_mode",
    "copy", "cudnn_enable", "cudnn_enabled", "device", "driver", "enable_gqa", "generator", "implicit", "inplace",
    "is_coalesced", "is_grads_batched", "layout", "lowmem", "materialize_grads", "max_seqlen", "memory_format",
    "min_seqlen", "names", "need_weights", "non_blocking", "only_inputs", "out", "path", "pin_memory", "reduce",
    "requires_grad", "retain_graph", "return_indices", "scale_grad_by_freq", "self", "size_average", "sparse",
    "sparse_grad", "sum_S", "total_L", "unsafe", "use_deterministic_algorithms", "use_fast_accum", "validate_indices",
}  # fmt: skip


def alterations_of(call: Call, result: object, dtype: torch.dtype) -> Iterator[Alteration]:
    """What can be altered in a call, with this result, of a program of this dtype."""
    name = call.operator
    for parameter, value in call.given():
        if parameter.name in _OF_NO_VALUE or parameter.name.startswith("_"):
            continue
        if parameter.is_optional and not _same(value, parameter.default):
            yield Alteration(name, Kind.DEFAULT, parameter.name)
        if parameter.name in _EPSILONS and isinstance(value, float) and value > 0:
            yield Alteration(name, Kind.ZERO, parameter.name)
        if parameter.name in _AXES and _mirrored(call, value) is not None:
            yield Alteration(name, Kind.OTHER_END, parameter.name)
            if any(each < 0 for each in _listed(value)):
                yield Alteration(name, Kind.OTHER_END, parameter.name, NEGATIVE)
    tensors = [leaf for leaf in tree_leaves(call.arguments) if isinstance(leaf, torch.Tensor)]
    reads = not name.startswith("new_") and not name.endswith("_like")
    if reads and dtype in _NARROWER and any(each.dtype is dtype for each in tensors):
        yield Alteration(name, Kind.NARROWER)
    if _can_be_swapped(call):
        yield Alteration(name, Kind.SWAPPED)
    if _has_ties(call):
        yield Alteration(name, Kind.TIES)
    if name == "view" and any(isinstance(each, torch.dtype) for each in call.arguments):
        yield Alteration(name, Kind.CONVERTED)
    if axis_size(call) == 0 and _has_elements(result):
        yield Alteration(name, Kind.EMPTY)


def parameters_of(call: Call) -> Iterator[str]:
    """The parameters of an operator that have defaults, and matter for its values."""
    for parameter in call.parameters or ():
        if parameter.is_optional and parameter.name not in _OF_NO_VALUE and not parameter.name.startswith("_"):
            yield parameter.name


def altered(call: Call, alteration: Alteration) -> Any:
    """What a call returns with an alteration; what it returns without if that does not concern it."""
    parameters = {parameter.name: (parameter, value) for parameter, value in call.given()}
    parameter, value = parameters.get(alteration.parameter, (Parameter(""), None))
    match alteration.kind:
        case Kind.DEFAULT if parameter.is_optional:
            return call.having(parameter.name, parameter.default).run()
        case Kind.ZERO if parameter.name:
            return call.having(parameter.name, 0.0).run()
        case Kind.OTHER_END if parameter.name:
            mirrored = _mirrored(call, value)
            if mirrored is not None and (not alteration.where or any(each < 0 for each in _listed(value))):
                return call.having(parameter.name, mirrored).run()
        case Kind.NARROWER:
            return _narrower(call)
        case Kind.SWAPPED if _can_be_swapped(call):
            one, other, *rest = call.arguments
            return replace(call, arguments=(other, one, *rest)).run()
        case Kind.TIES if _has_ties(call):
            return _turned(call)
        case Kind.EMPTY if axis_size(call) == 0:
            return tree_map_only(torch.Tensor, _another, call.run())
        case Kind.UNROUNDED:
            return call.arguments[0]
        case Kind.CONVERTED:
            to = next((each for each in call.arguments if isinstance(each, torch.dtype)), None)
            if to is not None:
                return call.arguments[0].to(to)
    return call.run()


def axis_size(call: Call) -> int | None:
    """The size of the axis that a call works along; None if it names no single axis."""
    dim, tensor = call.value("dim"), _first_tensor(call)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = dim[0]
    if type(dim) is not int or tensor is None or not -tensor.dim() <= dim < tensor.dim():
        return None
    return tensor.shape[dim]


def result_of_empty(call: Call) -> bool:
    """Whether an operator has values for an axis that it works along and that is empty."""
    size, tensor = axis_size(call), _first_tensor(call)
    if not size or tensor is None:
        return False
    dim = call.value("dim")
    dim = dim if type(dim) is int else dim[0]
    try:
        found = replace(call, arguments=(tensor.narrow(dim, 0, 0), *call.arguments[1:])).run()
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return _has_elements(found)


def _has_elements(result: object) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.numel() for leaf in tree_leaves(result))


def _first_tensor(call: Call) -> torch.Tensor | None:
    first = call.arguments[0] if call.arguments else None
    return first if isinstance(first, torch.Tensor) else None


def _same(value: object, default: object) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(default, torch.Tensor):
        return False
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    # A number stands for as many equal ones.
    if isinstance(value, list | tuple) and not isinstance(default, list | tuple | type(None)):
        return all(each == default for each in value)
    return bool(value == default)


def _listed(value: object) -> list[int]:
    """The axes that a parameter names; none if it names none."""
    axes = [*value] if isinstance(value, list | tuple) else [value]
    found = [each for each in axes if isinstance(each, int) and not isinstance(each, bool)]
    return found if len(found) == len(axes) else []


def _mirrored(call: Call, value: object) -> int | list[int] | None:
    """The axes with the same distances from the other end; None if there is but one axis, or none is named."""
    first = call.arguments[0] if call.arguments else None
    if isinstance(first, list | tuple) and first:
        first = first[0]
    axes = _listed(value)
    if not isinstance(first, torch.Tensor) or not axes:
        return None
    rank = first.dim() + (call.operator in _ADDING)
    if rank < 2 or not all(-rank <= each < rank for each in axes):
        return None
    found = [_other_end(each, rank) for each in axes]
    if {each % rank for each in found} == {each % rank for each in axes} and len(axes) > 1:
        return None
    return found if isinstance(value, list | tuple) else found[0]


def _other_end(axis: int, rank: int) -> int:
    found = rank - 1 - axis % rank
    if found == axis % rank:
        found = (found + 1) % rank
    return found - rank if axis < 0 else found


def _narrower(call: Call) -> Any:
    """The result in fewer bits: of all inputs, of all but indices, or of the first one, as torch takes them."""

    def lower(value: Any) -> Any:
        return tree_map_only(torch.Tensor, lambda each: each.to(_NARROWER.get(each.dtype, each.dtype)), value)

    def lower_values(name: str, value: Any) -> Any:
        return value if name.startswith(_INDICES) else lower(value)

    first, *rest = call.arguments or (None,)
    names = [parameter.name for parameter in call.parameters or ()]
    names += [""] * (len(call.arguments) - len(names))
    keywords = {name: lower(value) for name, value in call.keywords.items()}
    for fewer in (
        replace(call, arguments=lower(call.arguments), keywords=keywords),
        replace(
            call,
            arguments=tuple(map(lower_values, names, call.arguments)),
            keywords={name: lower_values(name, value) for name, value in call.keywords.items()},
        ),
        replace(call, arguments=(lower(first), *rest)),
    ):
        try:
            found = fewer.run()
            break
        except (RuntimeError, IndexError, TypeError):
            continue
    else:
        raise NotAlterableError
    wide = {narrow: wide for wide, narrow in _NARROWER.items()}
    return tree_map_only(torch.Tensor, lambda each: each.to(wide.get(each.dtype, each.dtype)), found)


def _can_be_swapped(call: Call) -> bool:
    if len(call.arguments) < 2:
        return False
    one, other = call.arguments[:2]
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and (one.shape, one.dtype) == (other.shape, other.dtype)
        and one.numel() > 0
        and not _is_symmetrical(call)
    )


#: Whether functions of two tensors make no difference between these, by function, dtype and number of axes.
_SYMMETRICAL: dict[tuple[object, torch.dtype, int], bool] = {}


def _is_symmetrical(call: Call) -> bool:
    """Whether the function makes no difference between its first two tensors, as an addition does not."""
    tensor = call.arguments[0]
    key = (call.function, tensor.dtype, tensor.dim())
    if key not in _SYMMETRICAL:
        _SYMMETRICAL[key] = _makes_no_difference(call)
    return _SYMMETRICAL[key]


def _makes_no_difference(call: Call) -> bool:
    shape, dtype = call.arguments[0].shape, call.arguments[0].dtype
    generator = torch.Generator().manual_seed(0)
    try:
        one, other = ((4 * torch.rand(shape, generator=generator)).to(dtype) for _ in range(2))
        there = replace(call, arguments=(one, other, *call.arguments[2:])).run()
        back = replace(call, arguments=(other, one, *call.arguments[2:])).run()
    except (RuntimeError, IndexError, TypeError, ValueError):
        return True
    pairs = zip(tree_leaves(there), tree_leaves(back), strict=True)
    return all(isinstance(a, torch.Tensor) and torch.allclose(a, b, equal_nan=True) for a, b in pairs)


def _has_ties(call: Call) -> bool:
    """Whether torch says which of the equal elements comes first."""
    tensor = _first_tensor(call)
    if call.operator not in _RANKING or tensor is None or not tensor.dim():
        return False
    if call.operator in ("max", "min"):
        return type(call.value("dim")) is int
    return (call.operator.startswith("arg") and call.operator != "argsort") or call.value("stable") is True


def _turned(call: Call) -> Any:
    """The result with the last of equal elements where the first is due."""
    tensor, dim = call.arguments[0], call.value("dim")
    axes = tuple(range(tensor.dim())) if dim is None else (dim,)
    last = (math.prod(tensor.shape[axis] for axis in axes)) - 1
    found = replace(call, arguments=(tensor.flip(axes), *call.arguments[1:])).run()
    if isinstance(found, torch.Tensor):
        return last - found
    values, places = found
    return type(found)((values, last - places))


def _another(value: torch.Tensor) -> torch.Tensor:
    if value.dtype is torch.bool:
        return ~value
    return torch.where(torch.isfinite(value), value + 1, torch.zeros_like(value))
