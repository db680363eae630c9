"""The kernels at a dispatch key above all others that make of composite operators what a recording can follow.

torch decomposes many operators before a recording sees them: `aten::linear` arrives as `t` and `addmm`, an LSTM as
hundreds of nodes. Those that the registry keeps whole have each an opaque twin of the same schema in the `onnx_parity`
namespace, which is called instead. The others are decomposed first of all, above functionalization, which would
otherwise not see what they write in place (an LSTM cell's gates). Which operators something else is called for, and
why, stands in the registry alone.

The key is only active inside `keeping_composites()`: other threads and other programs never meet these kernels. Being
in the dispatcher, they also see calls made from C++ and from TorchScript.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.replace import families  # noqa: F401  (registers what is replaced)
from onnx_parity.exporter.capture.replace.registry import Kind, functions, registered
from onnx_parity.exporter.own_operators import define

__all__ = ["falls_apart", "keeping_also", "keeping_composites", "original", "result_of_whole", "without_keeping"]

_aten = torch.ops.aten

_WHOLE = registered(Kind.WHOLE)
_INSTEAD = functions(Kind.INSTEAD)
_RESULTS = functions(Kind.RESULT_OF_WHOLE)

# The highest dispatch key that nothing else uses; torch reserves it for exactly such wrappers.
_KEY_NAME = "TESTING_ONLY_GenericMode"
_KEY = cast("torch._C.DispatchKey", torch._C._parse_dispatch_key(_KEY_NAME))
_KEY_SET = torch._C.DispatchKeySet(_KEY)

#: Twins by their operators, each made when first needed, and operators by their twins.
_twins: dict[OpOverload, OpOverload] = {}
_originals: dict[OpOverload, OpOverload] = {}
_making_twins = threading.Lock()
#: Composites that pass through here, by name: what a user has a lowering for can be kept whole.
_composites: set[str] = set()
#: Operators that are kept whole because the user says how to lower them.
_on_request: ContextVar[Collection[OpOverload]] = ContextVar("_on_request", default=())
_kernels = torch.library.Library("aten", "IMPL")
_fallback = torch.library.Library("_", "IMPL")


def without_keeping() -> Any:
    """A context in which composites decompose as torch has it."""
    return torch._C._ExcludeDispatchKeyGuard(_KEY_SET)


@contextmanager
def keeping_composites() -> Iterator[None]:
    with torch._C._IncludeDispatchKeyGuard(_KEY):
        yield


@contextmanager
def keeping_also(ops: Collection[OpOverload]) -> Iterator[None]:
    """Keep these whole too, because the user says how to lower them."""
    token = _on_request.set(frozenset(ops))
    try:
        yield
    finally:
        _on_request.reset(token)


def falls_apart(op: OpOverload) -> bool:
    """Whether torch writes the operator in others where nothing can hold it up: views, and what is not on tensors."""
    if op.namespace != "aten" or op.name() in _composites:
        return False
    return bool(op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def original(op: OpOverload) -> OpOverload:
    """The ATen operator behind an opaque twin; any other operator is its own original."""
    return _originals.get(op, op)


def result_of_whole(op: OpOverload) -> Callable[..., Any] | None:
    """What makes the results, without values, of an operator that is kept whole, if it is not torch's own."""
    ours = _RESULTS.get(op)
    if ours is None:
        return None

    def result(*args: Any, **kwargs: Any) -> Any:
        made = ours(*args, **kwargs)
        return op(*args, **kwargs) if made is NotImplemented else made

    return result


def _twin(op: OpOverload) -> OpOverload:
    twin = _twins.get(op)
    return _new_twin(op) if twin is None else twin


def _new_twin(op: OpOverload) -> OpOverload:
    with _making_twins:
        if op not in _twins:
            result_of = result_of_whole(op) or op

            def result(*args: Any, **kwargs: Any) -> Any:
                with without_keeping():
                    return result_of(*args, **kwargs)

            twin = define(str(op._schema).replace("aten::", "", 1), result)
            _originals[twin] = op
            _twins[op] = twin
    return _twins[op]


def _composite(name: str, known: OpOverload | None = None) -> None:
    """Have a composite operator replaced, kept whole, or decomposed: whichever is the first that there is."""
    instead = None if known is None else _INSTEAD.get(known)
    is_whole = known in _WHOLE

    def kernel(*args: Any, **kwargs: Any) -> Any:
        op = _overload(name) if known is None else known
        if torch._C._is_any_autocast_enabled():
            cast = _cast_whole(op, args) if is_whole or instead is not None else None
            if cast is None:
                return _under_autocast(op, *args, **kwargs)
            args = cast
        if instead is not None and op not in _on_request.get():
            result = instead(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if is_whole or op in _on_request.get():
            with without_keeping():
                return _twin(op)(*args, **kwargs)
        return op.decompose(*args, **kwargs)

    _kernels.impl(name, kernel, _KEY_NAME)


def _under_autocast(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Autocast casts by operator, below this key: what it knows is not taken over, the parts of all else are."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "AutocastCPU"):
        result = op.decompose(*args, **kwargs)
        if op is _aten.lstm.input:
            # torch 2.11 leaves the states of one that projects with an axis too many.
            return result[0], *(state.squeeze(1) if state.ndim > 3 else state for state in result[1:])
        return result
    with without_keeping():
        return op(*args, **kwargs)


def _cast_whole(op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments as autocast casts them for an operator that torch then runs as one; None for any other."""
    device = args[0].device.type
    if not torch.is_autocast_enabled(device):
        return args
    if op is _aten.lstm.input:
        # oneDNN's, which knows no projections.
        hidden, cell = args[1]
        if device != "cpu" or hidden.shape[-1] != cell.shape[-1]:
            return None
    elif op is not _aten.scaled_dot_product_attention.default:
        return None
    dtype = torch.get_autocast_dtype(device)
    return tuple(pytree.tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.dtype is torch.float32 else x, args))


def _other(op: OpOverload) -> None:
    """Have something else done for an operator that writes in place, or that is no composite."""
    instead = _INSTEAD[op]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = instead(*args, **kwargs)
        if result is not NotImplemented:
            return result
        if op._can_decompose():
            return op.decompose(*args, **kwargs)
        with without_keeping():
            return op(*args, **kwargs)

    _kernels.impl(op, kernel, _KEY_NAME)


@functools.cache
def _overload(name: str) -> OpOverload:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op: OpOverload = getattr(getattr(_aten, packet), overload or "default")
    return op


def _composites_of_tensors() -> Iterator[str]:
    """Names of operators on tensors that torch writes in others. Not views, which functionalization knows; those that
    write in place it knows only by their parts. Their objects are made when one is met: all take torch 0.1 s.
    """
    for qualified in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        if not qualified.startswith("aten::"):
            continue
        name, _, overload = qualified.partition(".")
        schema = str(torch._C._get_schema(name, overload))
        arguments, _, returns = schema.rpartition(" -> ")
        takes_tensors = "Tensor" in arguments.partition("(")[2]
        if takes_tensors and all("Tensor" in each for each in returns.split(", ")) and not _is_view(schema):
            yield qualified


def _is_view(schema: str) -> bool:
    """By what aliases and writes are marked with. (Asking it of each argument of 800 schemas takes 4 ms more.)"""
    signature = schema.partition("(")[2]
    return "Tensor(" in signature and "!" not in signature


_fallback.fallback(torch.library.fallthrough_kernel, _KEY_NAME)
_composites.update(_composites_of_tensors())
_done = set()
for _op in dict.fromkeys((*_WHOLE, *_INSTEAD)):
    _done.add(_op.name())
    if _op._schema.is_mutable or not _op._can_decompose():
        _composites.discard(_op.name())
        _other(_op)
    else:
        _composite(_op.name(), _op)
for _name in _composites - _done:
    _composite(_name)
