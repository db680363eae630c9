"""Composite operators: which are kept whole, and how the others fall apart where the recording can follow.

torch decomposes many operators before a recording sees them: `aten::linear` arrives as `t` and `addmm`, an LSTM as
hundreds of nodes. Those whose whole matters in ONNX are in `KEPT`: each has an opaque twin of the same schema in the
`onnx_parity` namespace, which is called instead. The others are decomposed first of all, above functionalization,
which would otherwise not see what they write in place (an LSTM cell's gates).

Both are done by kernels at a dispatch key above all others. It is only active inside `keeping_composites()`: other
threads and other programs never meet these kernels. Being in the dispatcher, they also see calls made from C++ and
from TorchScript.
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

from onnx_parity.exporter.capture.graph.graph import same_size
from onnx_parity.exporter.capture.replace.dynamic_sizes import VARYING
from onnx_parity.exporter.capture.replace.in_place import WRITTEN
from onnx_parity.exporter.capture.replace.indexing import BYTE_MASKS
from onnx_parity.exporter.capture.replace.on_gpu import UNFUSED
from onnx_parity.exporter.capture.replace.upsampling import UPSAMPLING
from onnx_parity.exporter.own_operators import define

__all__ = ["SHAPES", "falls_apart", "keeping_also", "keeping_composites", "original", "without_keeping"]

_aten = torch.ops.aten


def _batch_norm(*args: Any) -> Any:
    """In training it writes to its running statistics, and only this form of it says so."""
    input, weight, bias, mean, variance, training, momentum, epsilon, *_ = args
    if input.dim() == 1:
        return input.clone()  # torch takes one only if it is empty, and its fake kernels not even then.
    if not training:
        return None
    if mean is None:
        return _aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, epsilon)[0]
    return _aten._native_batch_norm_legit.default(input, weight, bias, mean, variance, True, momentum, epsilon)[0]


def _shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    # torch's own fills memory with the sizes, and a fake tensor has none.
    sizes = [torch.scalar_tensor(size, dtype=torch.int64, device=x.device) for size in x.shape]
    return torch.stack(sizes) if sizes else torch.empty(0, dtype=torch.int64, device=x.device)


def _reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape([cast("int", size.item()) for size in shape.unbind(0)])


def _instance_norm(*args: Any) -> Any:
    """With running statistics it is a batch norm of another shape, which is for that to keep."""
    return None if args[3] is None else _aten.instance_norm.default.decompose(*args)


#: The operators, and for some what is done instead, where that returns something.
KEPT: dict[OpOverload, Callable[..., Any] | None] = dict.fromkeys(
    (
        _aten.bilinear.default,
        _aten.linear.default,
        _aten.matmul.default,
        _aten.lstm.input,
        _aten.lstm.data,
        _aten.gru.input,
        _aten.gru.data,
        _aten.rnn_tanh.input,
        _aten.rnn_tanh.data,
        _aten.rnn_relu.input,
        _aten.rnn_relu.data,
        _aten.scaled_dot_product_attention.default,
        _aten.max_pool1d.default,
        _aten.avg_pool1d.default,
        _aten._pad_circular.default,
        _aten._pad_packed_sequence.default,
        _aten.rms_norm.default,
    )
)
KEPT[_aten.batch_norm.default] = _batch_norm
KEPT[_aten.instance_norm.default] = _instance_norm
KEPT[_aten._shape_as_tensor.default] = _shape_as_tensor
KEPT[_aten._reshape_from_tensor.default] = _reshape_from_tensor
KEPT.update(UPSAMPLING)
KEPT.update(VARYING)

# The highest dispatch key that nothing else uses; torch reserves it for exactly such wrappers.
_KEY_NAME = "TESTING_ONLY_GenericMode"
_KEY = cast("torch._C.DispatchKey", torch._C._parse_dispatch_key(_KEY_NAME))
_KEY_SET = torch._C.DispatchKeySet(_KEY)

#: Twins by their operators, each made when first needed, and operators by their twins.
_twins: dict[OpOverload, OpOverload] = {}
_originals: dict[OpOverload, OpOverload] = {}
_making_twins = threading.Lock()
#: Composites that are decomposed, by name; those that are kept whole on request.
_decomposed: set[str] = set()
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
    if op.namespace != "aten" or (op in KEPT and not _is_view(str(op._schema))) or op.name() in _decomposed:
        return False
    return bool(op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def original(op: OpOverload) -> OpOverload:
    """The ATen operator behind an opaque twin; any other operator is its own original."""
    return _originals.get(op, op)


def _recurrent_shapes(input: torch.Tensor, *args: Any) -> tuple[torch.Tensor, ...]:
    """torch steps through the sequence to learn the shapes, which would fix its length."""
    packed = isinstance(args[2], (list, tuple))
    hx, bidirectional = (args[1], args[7]) if packed else (args[0], args[6])
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    features = states[0].shape[-1] * (2 if bidirectional else 1)
    output = input.new_empty((*input.shape[:-1], features))
    return (output, *(state.new_empty(state.shape) for state in states))


def _linear_shapes(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """torch's own imports sympy, 0.3 s of a process's first export. What does not fit is for torch to refuse."""
    plain = weight.dim() == 2 and input.dim() > 0 and input.dtype == weight.dtype
    if plain and (bias is None or bias.shape == weight.shape[:1]) and same_size(input.shape[-1], weight.shape[1]):
        return torch.empty((*input.shape[:-1], weight.shape[0]), dtype=input.dtype, device=input.device)
    result: torch.Tensor = _aten.linear.default(input, weight, bias)
    return result


def _max_pool1d_shapes(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> torch.Tensor:
    """torch's own reads the length as a number, which would fix it; two-dimensional pooling does not."""
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], [1, *_listed(dilation)], ceil)
    pooled: torch.Tensor = _aten.max_pool2d_with_indices(x.unsqueeze(-2), *args)[0]
    return pooled.squeeze(-2)


def _avg_pool1d_shapes(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, ceil: bool = False, counts: bool = True
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], ceil, counts)
    pooled: torch.Tensor = _aten.avg_pool2d(x.unsqueeze(-2), *args)
    return pooled.squeeze(-2)


def _listed(numbers: Any) -> list[int]:
    return list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]


#: Shapes of results, for operators where torch's way of finding them is slow or would fix a size that may vary.
SHAPES: dict[OpOverload, Callable[..., Any]] = {
    _aten.linear.default: _linear_shapes,
    _aten.max_pool1d.default: _max_pool1d_shapes,
    _aten.avg_pool1d.default: _avg_pool1d_shapes,
    **{
        op: _recurrent_shapes
        for op in KEPT
        if op._schema.name in ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
    },
}


def _twin(op: OpOverload) -> OpOverload:
    with _making_twins:
        if op not in _twins:
            shapes_of = SHAPES.get(op, op)

            def shapes(*args: Any, **kwargs: Any) -> Any:
                with without_keeping():
                    return shapes_of(*args, **kwargs)

            _twins[op] = define(str(op._schema).replace("aten::", "", 1), shapes)
            _originals[_twins[op]] = op
    return _twins[op]


def _keep(op: OpOverload, instead: Callable[..., Any] | None) -> None:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        if torch._C._is_any_autocast_enabled():
            cast = _cast_whole(op, args)
            if cast is None:
                return _under_autocast(op, *args, **kwargs)
            args = cast
        if instead is not None and op not in _on_request.get() and (result := instead(*args, **kwargs)) is not None:
            return result
        with without_keeping():
            return _twin(op)(*args, **kwargs)

    _kernels.impl(op, kernel, _KEY_NAME)


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


def _replace(op: OpOverload, instead: Callable[..., Any]) -> None:
    """Do something else, where that returns something; otherwise what torch does."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if (result := instead(*args, **kwargs)) is not None:
            return result
        if op._can_decompose():
            return op.decompose(*args, **kwargs)
        with without_keeping():
            return op(*args, **kwargs)

    _kernels.impl(op, kernel, _KEY_NAME)


def _decompose(name: str) -> None:
    unfused = UNFUSED.get(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        op = _overload(name)
        if torch._C._is_any_autocast_enabled():
            return _under_autocast(op, *args, **kwargs)
        if op in _on_request.get():
            with without_keeping():
                return _twin(op)(*args, **kwargs)
        if unfused is not None and args[0].device.type != "cpu":
            return unfused(*args, **kwargs)
        return op.decompose(*args, **kwargs)

    _kernels.impl(name, kernel, _KEY_NAME)


@functools.cache
def _overload(name: str) -> OpOverload:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op: OpOverload = getattr(getattr(_aten, packet), overload or "default")
    return op


def _composites() -> Iterator[str]:
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
for _op, _instead in KEPT.items():
    _keep(_op, _instead)
for _op, _instead in {**WRITTEN, **BYTE_MASKS}.items():
    _replace(_op, _instead)
_decomposed.update({*_composites()} - {_op.name() for _op in (*KEPT, *WRITTEN)})
for _name in _decomposed:
    _decompose(_name)
