"""Kernels for composite operators, at a dispatch key above all others.

torch decomposes many operators before a recording sees them: `aten::linear` arrives as `t` and `addmm`, an LSTM as
hundreds of nodes. An operator that ONNX has as a whole is replaced by its twin, an opaque operator of the same schema
in the `onnx_parity` namespace. Every other composite operator is decomposed here, before functionalization, which would
otherwise not see its writes in place (to an LSTM cell's gates). The registry lists all replacements with reasons.

The key is only active inside `keeping_composites()`, so other threads and other programs are not affected. Because the
kernels are in the dispatcher, they also see calls from C++ and from TorchScript, and they cost nothing for operators
that are not composite. They are registered under the operators' names, and the operators' objects are created when they
are first called, because creating all of them at import would take time that few programs need.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from onnx_parity.exporter.dispatch.autocast import called_under_autocast
from onnx_parity.exporter.dispatch.functional import inside_of_gradients
from onnx_parity.exporter.dispatch.gradients import is_seen_once
from onnx_parity.exporter.dispatch.overlaps import WRITING_WHILE_READING, refuse_overlap
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.own_operators import define
from onnx_parity.exporter.registry.recorded import function_for, named
from onnx_parity.exporter.registry.rules import Aspect, names_in_index
from onnx_parity.exporter.torch_inside.dispatcher import (
    DispatchKey,
    DispatchKeySet,
    OpOverload,
    can_be_decomposed,
    has_kernel_at,
    is_any_autocast_enabled,
    key_of_name,
    library_of_kernels,
    names_with_kernel_at,
    schema_by_name,
    schema_of,
    with_key,
    without_keys,
)
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory
from onnx_parity.exporter.torch_inside.transforms import is_functionaltensor, is_wrapped

__all__ = [
    "PlainSizesError",
    "decomposes_unseen",
    "keeping_composites",
    "keeping_whole",
    "original",
    "sparse_tensor_used",
    "whole",
    "without_keeping",
]

_aten = torch.ops.aten

_WHOLE = names_in_index(Aspect.WHOLE)
_INSTEAD = names_in_index(Aspect.INSTEAD)

# The highest dispatch key that nothing else uses; torch reserves it for exactly such wrappers.
_KEY_NAME = "TESTING_ONLY_GenericMode"
_KEY = key_of_name(_KEY_NAME)
_KEY_SET = DispatchKeySet(_KEY)
_COMPOSITE = DispatchKey.CompositeImplicitAutograd

#: Twins by their operators, each created when it is first needed, and operators by their twins.
_twins: dict[OpOverload, OpOverload] = {}
_originals: dict[OpOverload, OpOverload] = {}
_making_twins = threading.Lock()
#: Names of composite operators that have a kernel here. A user who has a lowering for one can have it kept whole.
_composites: set[str] = set()
#: Composite operators that are views, or that do not take tensors and return tensors alone. A test holds the list
#: against the schemas of all composite operators, which would take 4 ms of a process's first export to read.
_VIEWS_AND_QUESTIONS = frozenset(
    {
        "_autocast_to_full_precision", "_autocast_to_reduced_precision", "_backward", "_batch_norm_impl_index",
        "_choose_qparams_per_tensor", "_cufft_clear_plan_cache", "_cufft_get_plan_cache_max_size",
        "_cufft_get_plan_cache_size", "_cufft_set_plan_cache_max_size", "_debug_has_internal_overlap",
        "_has_compatible_shallow_copy_type", "_is_zerotensor", "_nnpack_available", "_propagate_xla_data",
        "_unpack_dual", "_use_cudnn_rnn_flatten_weight", "_validate_sparse_bsc_tensor_args",
        "_validate_sparse_bsr_tensor_args", "_validate_sparse_compressed_tensor_args",
        "_validate_sparse_coo_tensor_args", "_validate_sparse_csc_tensor_args", "_validate_sparse_csr_tensor_args",
        "_version", "adjoint", "broadcast_to", "can_cast", "chunk", "coalesce", "conj", "contiguous",
        "cudnn_is_acceptable", "dim", "dsplit.array", "dsplit.int", "expand_as", "fbgemm_linear_quantize_weight",
        "flatten.using_ints", "get_device", "get_gradients", "hsplit.array", "hsplit.int", "imag", "is_complex",
        "is_conj", "is_contiguous", "is_contiguous.memory_format", "is_distributed", "is_floating_point",
        "is_inference", "is_leaf", "is_neg", "is_nonzero", "is_signed", "is_vulkan_available", "item",
        "linalg_diagonal", "mH", "mT", "matrix_H", "moveaxis.int", "moveaxis.intlist", "movedim.int", "movedim.intlist",
        "narrow", "narrow.Tensor", "numel", "numpy_T", "output_nr", "pin_memory", "positive", "promote_types", "ravel",
        "real", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "result_type.Scalar",
        "result_type.Scalar_Scalar", "result_type.Scalar_Tensor", "result_type.Tensor", "retain_grad", "retains_grad",
        "set_data", "size.int", "split.sizes", "storage_offset", "stride.int", "swapaxes", "swapdims",
        "sym_is_contiguous", "sym_numel", "sym_size.int", "sym_storage_offset", "sym_stride.int",
        "tensor_split.indices", "tensor_split.sections", "tensor_split.tensor_indices_or_sections", "to.device",
        "to.dtype", "to.dtype_layout", "to.other", "unflatten.int", "view_as", "vsplit.array", "vsplit.int",
    }
)  # fmt: skip
#: Operators whose result is a view in some calls and a copy in others.
_MAY_COPY = frozenset(
    {"contiguous", "flatten.using_ints", "ravel", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "to.device",
     "to.dtype", "to.dtype_layout", "to.other"}
)  # fmt: skip
#: Operators that are kept whole because the user has registered a lowering.
_on_request: ContextVar[Collection[OpOverload]] = ContextVar("_on_request", default=())
#: Registered below the class that torch offers for this, which would take 3 ms more to list all kernels in Python.
_kernels = library_of_kernels("IMPL", "aten", "")
_fallback = torch.library.Library("_", "IMPL")


def without_keeping() -> Any:
    """A context in which torch decomposes composite operators itself."""
    return without_keys(_KEY_SET)


@contextmanager
def keeping_composites() -> Iterator[None]:
    with with_key(_KEY):
        yield


@contextmanager
def keeping_whole(ops: Collection[OpOverload]) -> Iterator[None]:
    """A context in which these operators are kept whole too, because the user has registered lowerings for them."""
    token = _on_request.set(frozenset(ops))
    try:
        yield
    finally:
        _on_request.reset(token)


def decomposes_unseen(op: OpOverload) -> bool:
    """Whether torch decomposes an operator before it can be kept whole: a view, or an operator without tensors."""
    if op.namespace != "aten" or op.name() in _composites:
        return False
    return bool(op.has_kernel_for_dispatch_key(_COMPOSITE))


def original(op: OpOverload) -> OpOverload:
    """The ATen operator behind an opaque twin; any other operator is its own original."""
    return _originals.get(op, op)


def whole(op: OpOverload) -> OpOverload:
    """The opaque twin of an operator, which is recorded as the operator itself."""
    twin = _twins.get(op)
    return _new_twin(op) if twin is None else twin


def _new_twin(op: OpOverload) -> OpOverload:
    with _making_twins:
        if op not in _twins:

            def result(*args: Any, **kwargs: Any) -> Any:
                with without_keeping():
                    return op(*args, **kwargs)

            twin = define(str(schema_of(op)).replace("aten::", "", 1), result)
            _originals[twin] = op
            _twins[op] = twin
    return _twins[op]


def _composite(name: str) -> None:
    """Register the kernel of a composite operator, which replaces it, keeps it whole, or else decomposes it."""
    is_replaced, is_whole = name in _INSTEAD, name in _WHOLE

    def call(*args: Any, **kwargs: Any) -> Any:
        op = named(name)
        if is_replaced and op not in _on_request.get():
            result = _replaced(name, args, kwargs)
            if result is not NotImplemented:
                return result
        if (is_whole or op in _on_request.get()) and is_seen_once((args, kwargs)):
            with without_keeping():
                return whole(op)(*args, **kwargs)
        return _decomposed(op, args, kwargs)

    _register(name, call)


def _replaced(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of what is called instead of an operator; `NotImplemented` if it leaves this call to torch."""
    instead = function_for(Aspect.INSTEAD, name)
    if instead is None:
        return NotImplemented
    result = instead(*args, **kwargs)
    if result is not NotImplemented and _returns_a_view(name) and _is_copied(args, result):
        raise refused_here(
            f"{name}: {instead.__module__}.{instead.__qualname__}, which is called instead of it, returns a copy "
            "where torch returns a view of its argument: what the program writes to it would be lost. This is a defect "
            "of the exporter: let the function return a view"
        )
    return result


@functools.cache
def _returns_a_view(name: str) -> bool:
    """Whether an operator's result always shares the memory of an argument."""
    results = () if _writes(*name.partition(".")[::2]) else schema_of(named(name)).returns
    is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in results)
    return is_view and name.removeprefix("aten::") not in _MAY_COPY


def _is_copied(given: Sequence[Any], result: Any) -> bool:
    """Whether no result has the memory of an argument. Those of vmap are not asked: they have none of their own."""
    tensors, results = (
        [inside_of_gradients(each) for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]
        for tree in (given, result)
    )
    if any(is_wrapped(each) and not is_functionaltensor(each) for each in (*tensors, *results)):
        return False
    memory = set(map(identity_of_memory, tensors))
    return bool(results) and memory.isdisjoint(map(identity_of_memory, results))


class PlainSizesError(CaptureError):
    """torch asks for the sizes of a tensor as numbers, and one of them is dynamic."""


def sparse_tensor_used(tensor: torch.Tensor) -> CaptureError:
    """What to raise where the program computes with a sparse tensor of its own, such as a buffer."""
    return refused_here(
        f"the program computes with a {tensor.layout} tensor of sizes {list(tensor.shape)}, and ONNX has no operators "
        "for sparse tensors: convert it with to_dense() before the export, or keep its indices and values as tensors"
    )


def _decomposed(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return op.decompose(*args, **kwargs)
    except PlainSizesError as error:
        for each in tree_leaves(args):
            if isinstance(each, torch.Tensor) and each.layout is not torch.strided:
                raise sparse_tensor_used(each) from error
        raise refused_here(
            f"{op.name()}: torch's own implementation takes plain sizes only, and one of these is dynamic: remove that "
            "axis from dynamic_axes"
        ) from error


def _other(name: str) -> None:
    """Register what is called for an operator that writes in place or that is not composite."""
    is_replaced, may_overlap = name in _INSTEAD, name in WRITING_WHILE_READING

    def call(*args: Any, **kwargs: Any) -> Any:
        if may_overlap:
            refuse_overlap(name, args, kwargs)
        if is_replaced:
            result = _replaced(name, args, kwargs)
            if result is not NotImplemented:
                return result
        op = named(name)
        if can_be_decomposed(op):
            return op.decompose(*args, **kwargs)
        with without_keeping():
            return op(*args, **kwargs)

    _register(name, call)


def _register(name: str, call: Callable[..., Any]) -> None:
    """Register what is called in the place of an operator. Under autocast, its arguments may be cast before that."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if is_any_autocast_enabled():
            return called_under_autocast(named(name), call, args, kwargs)
        return call(*args, **kwargs)

    _kernels.impl(name, _KEY, kernel)


def _composites_of_tensors() -> Iterator[str]:
    """The names of composite operators on tensors, except views, which functionalization handles itself.

    Operators that write in place are included, since functionalization only handles what they decompose into.
    """
    for name in names_with_kernel_at("CompositeImplicitAutograd"):
        namespace, _, rest = name.partition("::")
        if namespace == "aten" and rest not in _VIEWS_AND_QUESTIONS:
            yield name


def _writes(name: str, overload: str) -> bool:
    """Whether an operator's name says that it writes to a tensor; not all say it. A schema takes 6 us."""
    return overload == "out" or overload.endswith("_out") or (name.endswith("_") and not name.endswith("__"))


def _is_composite(name: str) -> bool:
    """Whether an operator writes nothing, and torch decomposes it, in C++ or in Python (then its object exists)."""
    qualified, _, overload = name.partition(".")
    if not _writes(qualified, overload) and has_kernel_at(name, _COMPOSITE):
        return not schema_by_name(qualified, overload).is_mutable
    packet = vars(_aten).get(qualified.removeprefix("aten::"))
    op = None if packet is None else vars(packet).get(overload or "default")
    return op is not None and _COMPOSITE in op.py_kernels and not schema_of(op).is_mutable


def _register_kernels() -> None:
    """Register the kernels of the operators that are composite or replaced."""
    _fallback.fallback(torch.library.fallthrough_kernel, _KEY_NAME)
    _composites.update(_composites_of_tensors())
    replaced = {*_WHOLE, *_INSTEAD}
    not_composite = {name for name in replaced if not _is_composite(name)}
    _composites.difference_update(not_composite)
    for name in not_composite | WRITING_WHILE_READING:
        _other(name)
    for name in _composites | (replaced - not_composite):
        _composite(name)


_register_kernels()
