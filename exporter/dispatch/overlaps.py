"""Operators that write to memory which they read in another order: `x[:, 1:] += x[:, :-1]`.

torch refuses some of them ("some elements of the input tensor and the written-to tensor refer to a single memory
location"). The others read some elements before they have been written and some after it, which depends on the sizes,
on the processor and on its threads. A model reads all of them before, so that it would compute something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from onnx_parity.exporter.dispatch.functional import inside_of_gradients, unwrapped
from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.graph.graph import Node, Size, Value, Varying
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.sizes.copies import symbols_of
from onnx_parity.exporter.sizes.size_node import expression_of_size
from onnx_parity.exporter.torch_inside.dispatcher import is_view
from onnx_parity.exporter.torch_inside.modes import outside_of_modes, outside_of_transforms, without_function_overrides
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.tensors import identity_of_memory
from onnx_parity.exporter.torch_inside.this_thread import recorder_here
from onnx_parity.exporter.torch_inside.transforms import inside_before_writes, is_functionaltensor

__all__ = ["WRITING_WHILE_READING", "refuse_overlap"]

#: Operators that compute each element of what they write to from the elements at the same place.
_ELEMENTWISE = frozenset(
    {
        "__ilshift__.Tensor", "__irshift__.Tensor", "add.out", "add_.Tensor", "addcdiv.out", "addcdiv_", "addcmul.out",
        "addcmul_", "atan2_", "bernoulli_.Tensor", "bitwise_and_.Tensor", "bitwise_left_shift_.Tensor",
        "bitwise_or_.Tensor", "bitwise_right_shift_.Tensor", "bitwise_xor_.Tensor", "clamp_.Tensor",
        "clamp_max_.Tensor", "clamp_min_.Tensor", "copy_", "copysign_.Tensor", "div.out", "div_.Tensor",
        "div_.Tensor_mode", "eq_.Tensor", "floor_divide_.Tensor", "fmod_.Tensor", "gcd_", "ge_.Tensor", "gt_.Tensor",
        "heaviside_", "hypot_", "igamma_", "igammac_", "lcm_", "ldexp_", "le_.Tensor", "lerp.Scalar_out",
        "lerp.Tensor_out", "lerp_.Scalar", "lerp_.Tensor", "logical_and_", "logical_or_", "logical_xor_", "lt_.Tensor",
        "masked_fill_.Scalar", "masked_fill_.Tensor", "maximum.out", "minimum.out", "mul.out", "mul_.Tensor",
        "ne_.Tensor", "nextafter_", "pow_.Tensor", "remainder_.Tensor", "sub.out", "sub_.Tensor", "where.self_out",
        "xlogy_.Tensor",
    }
)  # fmt: skip
#: Those that read elements of other places.
_OTHERS = frozenset(
    {
        "addbmm_", "addmm.out", "addmm_", "addmv_", "addr_", "baddbmm.out", "baddbmm_", "bmm.out", "cat.out",
        "gather.out", "index_add_", "index_copy_", "index_fill_.int_Scalar", "index_fill_.int_Tensor", "index_put_",
        "index_reduce_", "index_select.out", "masked_scatter_", "mean.out", "mm.out", "put_", "scatter_.reduce",
        "scatter_.src", "scatter_.value", "scatter_.value_reduce", "scatter_add_", "scatter_reduce_.two",
        "sum.IntList_out",
    }
)  # fmt: skip
WRITING_WHILE_READING = frozenset(f"aten::{name}" for name in _ELEMENTWISE | _OTHERS)
#: Operators whose results are views, which torch does not say.
_UNSAFE_VIEWS = frozenset(
    {
        torch.ops.aten._unsafe_view.default, torch.ops.aten.unsafe_split.Tensor,
        torch.ops.aten.unsafe_split_with_sizes.default,
    }
)  # fmt: skip
#: Up to so many elements torch computes one after the other, and more of them in several threads.
_IN_ORDER = 32768
#: What is added to the sizes of the example to find sizes with which tensors overlap.
_OTHER_SIZES = (0, 1, 3, 8)


class _Placed(NamedTuple):
    """Where a tensor lies in its memory, in bytes."""

    start: int
    shape: Sequence[int]
    strides: Sequence[int]

    @property
    def axes(self) -> list[tuple[int, int]]:
        """The strides and sizes of its axes of several elements, as they lie in memory from the innermost one."""
        return sorted((stride, size) for stride, size in zip(self.strides, self.shape, strict=True) if size > 1)

    @property
    def end(self) -> int:
        return self.start + sum(stride * (size - 1) for stride, size in self.axes)

    def nests(self) -> bool:
        """Whether each axis lies between two elements of the next one, so that no two elements are one."""
        span = 0
        for stride, size in self.axes:
            if stride <= span:
                return False
            span += stride * (size - 1)
        return True

    def is_dense(self, width: int) -> bool:
        """Whether its elements, of so many bytes each, leave no gaps."""
        return self.nests() and self.end - self.start == (math.prod(self.shape) - 1) * width

    def places(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The places of its elements."""
        found = np.array(self.start)
        for stride, size in zip(self.strides, self.shape, strict=True):
            found = found[..., None] + stride * np.arange(size)
        return found.ravel()

    def expanded(self, shape: Sequence[int]) -> _Placed | None:
        """The same, broadcast to a shape; None if it does not fit."""
        missing = len(shape) - len(self.shape)
        if missing < 0:
            return None
        sizes, strides = [1] * missing + [*self.shape], [0] * missing + [*self.strides]
        if any(size not in (1, wanted) for size, wanted in zip(sizes, shape, strict=True)):
            return None
        strides = [0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
        return _Placed(self.start, shape, strides)

    def meets(self, other: _Placed) -> bool:
        """Whether the two have an element in common."""
        try:
            # numpy declares two of the numbers that its limit may be.
            return np.shares_memory(_Memory(self).array, _Memory(other).array, max_work=10**6)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True


class _Memory:
    """An array that nobody reads."""

    def __init__(self, placed: _Placed) -> None:
        first = 1 << 32  # Of no matter which address.
        self.__array_interface__ = {
            "shape": tuple(placed.shape), "strides": tuple(placed.strides), "typestr": "|u1",
            "data": (first + placed.start, True), "version": 3,
        }  # fmt: skip
        self.array = np.asarray(self)


def refuse_overlap(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call of an operator that reads memory which it writes to, unless it reads each element where it writes
    to it or before it has come to it."""
    target, *others = _tensors(name, args, kwargs)
    is_elementwise = name.removeprefix("aten::") in _ELEMENTWISE
    memory = identity_of_memory(target) if others else None
    for other in others:
        if identity_of_memory(other) != memory or (other is target and is_elementwise):
            continue
        if _disagree(target, other, is_elementwise, name == "aten::copy_"):
            raise refused_here(
                f"{name} reads a part of the memory that it writes to, which PyTorch refuses, or reads partly before "
                "and partly after it has been written: let it read a copy, as in x[:, 1:] += x[:, :-1].clone()"
            )


def _tensors(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """The tensor that an operator writes to, and those that it reads and that may be of the same memory."""
    named = dict(kwargs)
    target = inside_of_gradients(named.pop("out") if name.endswith("out") else args[0])
    yield target
    if not is_functionaltensor(target):
        return
    if name in {"aten::masked_fill_.Tensor", "aten::index_fill_.int_Tensor"}:
        args, named = args[:-1], {}  # The number is read before anything is written.
    for each in tree_leaves((args if name.endswith("out") else args[1:], named)):
        if isinstance(each, torch.Tensor):
            other = inside_of_gradients(each)
            if is_functionaltensor(other):
                yield other


def _disagree(target: torch.Tensor, other: torch.Tensor, is_elementwise: bool, is_copy: bool) -> bool:
    """Whether it matters, with the sizes of the example or with others, that the two have elements in common."""
    one, another = map(_Views, (target, other))
    if one.whole is None or one.whole is not another.whole:
        return False  # How they lie is not known, as of the parts of complex numbers.
    hints: Mapping[Any, int] = next((each.hints for each in map(symbols_of, (target, other)) if each is not None), {})
    symbols = one.symbols | another.symbols
    for added in _OTHER_SIZES if symbols else (0,):
        values = {symbol: hints.get(symbol, 2) + added for symbol in symbols}
        try:
            written, read = one.at(values), another.at(values)
        except (IndexError, RuntimeError, ZeroDivisionError):  # There are no such sizes.
            continue
        if min((*written.shape, *read.shape), default=1) <= 0:
            continue
        if not written.meets(read):
            continue
        expanded = read.expanded(written.shape) if is_elementwise else read
        if not is_elementwise or _is_refused(written, read, target.element_size()):
            return True
        if expanded is not None and not _is_read_first(written, expanded, is_copy):
            return True
    return False


def _is_refused(written: _Placed, read: _Placed, width: int) -> bool:
    """Whether torch refuses an operator on two tensors that have elements in common: neither has gaps, and they are not
    the same."""
    are_same = written.start == read.start and written.axes == read.axes
    return written.is_dense(width) and read.is_dense(width) and not are_same


def _is_read_first(written: _Placed, read: _Placed, is_copy: bool) -> bool:
    """Whether each element is read where it is written to, or before, in the order in which elements are written: that
    of their places in memory. What is copied to itself may be read later too."""
    if (written.start, written.strides) == (read.start, read.strides):
        return True
    if not written.nests() or math.prod(written.shape) > _IN_ORDER:
        return False
    targets, sources = written.places(), read.places()
    order = np.argsort(targets)
    targets, sources = targets[order], sources[order]
    found = np.minimum(np.searchsorted(targets, sources), len(targets) - 1)
    is_late = (targets[found] == sources) & (found < np.arange(len(targets)))
    return not (is_late & (targets[found] != sources[found]) if is_copy else is_late).any()


class _Views:
    """The views by which a tensor of the program was made of the whole one. Where they begin in memory is not followed
    by a recording with dynamic sizes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # Within a gradient, views are not made anew here by what the recorder sees.
        inside = inside_before_writes(tensor) if is_transformed() else unwrapped(tensor)
        self._nodes: list[tuple[Node, int]] = []
        self.symbols: set[Any] = set()
        self.whole: Value | None = None
        if not recorder_here().knows(inside):
            return
        value: Value = recorder_here().value_of(inside)
        while value.node is not None and (is_view(value.node.op) or value.node.op in _UNSAFE_VIEWS):
            self._nodes.insert(0, (value.node, next(n for n, each in enumerate(value.node.outputs) if each is value)))
            value = next(value.node.inputs())
        self.whole = value
        sizes = [*value.shape, *(size for node, _ in self._nodes for size in node.sizes())]
        varying = [expression_of_size(cast("Size", size)) for size in sizes if isinstance(size, Varying)]
        self.symbols = {symbol for each in varying for symbol in each.free_symbols}

    def at(self, values: Mapping[Any, int]) -> _Placed:
        """Where it lies, for these sizes and numbers."""

        def plain(argument: Any) -> Any:
            if isinstance(argument, (list, tuple)):
                return [*map(plain, argument)]
            if not isinstance(argument, Varying):
                return argument
            return int(expression_of_size(cast("Size", argument)).at(values))

        with without_function_overrides(), outside_of_modes(), outside_of_transforms():
            assert self.whole is not None
            tensor = torch.empty(plain(self.whole.shape), dtype=self.whole.dtype, device="meta")
            for node, output in self._nodes:
                _, *arguments = node.arguments.values()
                result: Any = node.op(tensor, *map(plain, arguments))  # type: ignore[operator]
                tensor = result[output] if isinstance(result, (list, tuple)) else result
            width = tensor.element_size()
            strides = [stride * width for stride in tensor.stride()]
            return _Placed(int(tensor.storage_offset()) * width, tuple(tensor.shape), strides)
