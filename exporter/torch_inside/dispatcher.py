"""torch's dispatcher: the objects of operators, their schemas and decompositions, dispatch keys, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, cast

import torch
from torch._C import DispatchKey, DispatchKeySet, _parse_dispatch_key, parse_schema
from torch._C import _dispatch_get_all_op_names as all_operator_names
from torch._C import _dispatch_get_registrations_for_dispatch_key as names_with_kernel_at
from torch._C import _dispatch_has_computed_kernel_for_dispatch_key as has_computed_kernel_at
from torch._C import _dispatch_has_kernel as is_operator
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel_at
from torch._C import _dispatch_library as library_of_kernels
from torch._C import _dispatch_tls_is_dispatch_key_excluded as is_excluded_here
from torch._C import _ExcludeDispatchKeyGuard as without_keys
from torch._C import _get_schema as schema_by_name
from torch._C import _IncludeDispatchKeyGuard as with_key
from torch._C import _is_any_autocast_enabled as is_any_autocast_enabled
from torch._decomp import _core_aten_decompositions_post_autograd as core_decompositions
from torch._decomp import decomposition_table, meta_table
from torch._library.simple_registry import singleton as _registered
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

__all__ = [
    "DispatchKey", "DispatchKeySet", "HigherOrderOperator", "OpOverload", "OpOverloadPacket", "all_operator_names",
    "can_be_decomposed", "changes_layout", "core_decompositions", "decomposition_table", "has_computed_kernel_at",
    "has_kernel_at", "in_operators_of_aten", "is_any_autocast_enabled", "is_excluded_here", "is_operator", "is_view",
    "kernel_of_any_device", "kernels_of_tensors_with_data", "kernels_that_conjugate", "key_of_name",
    "library_of_kernels", "meta_table", "names_with_kernel_at", "overload_of", "parse_schema", "register_fake_results",
    "schema_by_name", "schema_of", "with_key", "without_keys",
]  # fmt: skip

#: The schema of an operator, and the name of its overload, which is `default` if it has none.
schema_of = cast("Callable[[OpOverload], torch.FunctionSchema]", attrgetter("_schema"))
overload_of = cast("Callable[[OpOverload], str]", attrgetter("_overloadname"))


def key_of_name(name: str) -> DispatchKey:
    """A dispatch key, also one that is no attribute of `DispatchKey`."""
    return cast("DispatchKey", _parse_dispatch_key(name))


@contextmanager
def kernels_of_tensors_with_data() -> Iterator[None]:
    """A context in which kernels are not those of tensors without data, as they all are within fake tensors."""
    with torch._C._PreserveDispatchKeyGuard():
        torch._C._set_meta_in_tls_dispatch_include(False)
        yield


@contextmanager
def kernels_that_conjugate() -> Iterator[None]:
    """A context, within a dispatch mode, in which kernels see what is lazily conjugated or negated.

    torch excludes this where a mode is called: a kernel that multiplies by `x.conj()` itself multiplies by `x` then.
    """
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (DispatchKey.Conjugate, DispatchKey.Negative):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        yield


def is_view(op: object) -> bool:
    """Whether an operator gives a view of what it is given."""
    schema = schema_of(op) if isinstance(op, OpOverload) else None
    return schema is not None and not schema.is_mutable and any(result.alias_info for result in schema.returns)


def changes_layout(function: Any) -> bool:
    """Whether a function of torch gives its first argument other sizes or strides, as `transpose_` does."""
    name = function.overloadpacket.__name__ if isinstance(function, OpOverload) else function.__name__
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") else None
    return packet is not None and any(
        torch.Tag.inplace_view in getattr(packet, overload).tags for overload in packet.overloads()
    )


def can_be_decomposed(op: OpOverload) -> bool:
    """Whether torch has a decomposition of an operator, in C++ or in Python."""
    return op._can_decompose()


def in_operators_of_aten(prim: OpOverload) -> Callable[..., Any]:
    """What an operator of `torch.ops.prims` computes, as a function that calls those of ATen."""
    computed: Callable[..., Any] = prim.impl_aten  # type: ignore[attr-defined]  # torch adds it to these operators
    return computed


def kernel_of_any_device(op: OpOverload) -> Callable[..., Any]:
    """The kernel of an operator that is the same for all devices, as a function."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return op._op_dk(DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    return call


def register_fake_results(name: str, results: Callable[..., Any], library: torch.library.Library) -> None:
    """Let a function make the fake results of an operator of a library."""
    _registered.find(name).fake_impl.register(results, source=__name__, lib=library)
